"""``index_texts`` of a chunking: the texts by which a chunk is found, besides its own or instead.

This is LangChain's and LlamaIndex's multi-vector retrieval. Each text is a row of an index, and a
hit on any of them is a hit on its chunk: which chunk a row is of stands beside the index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rag_assets.chunking.chunk_table import indexed_texts
from rag_assets.options import FileOptions, Number
from rag_assets.schemas import COUNT, TEXT, Column, TableSchema

OWN_TEXT, HEADINGS = "text", "headings"
SUMMARY, QUESTIONS, CONTEXT = "summary", "questions", "context"

SAME_LANGUAGE = "the language of the passage"

OF_CHUNK = "indexed_chunk_id"
"""Column beside the ids of an index's rows: the chunk that each is a text of."""

INDEX_TEXTS = TableSchema(
    "index_texts",
    "one text by which a chunk is found",
    ("chunk_id", "kind", "number"),
    (
        Column("chunk_id", TEXT, "the chunk"),
        Column("kind", TEXT, "text, headings, summary, questions or context"),
        Column("number", COUNT, "0, 1, ... where a chunk has several of a kind"),
        Column("text", TEXT, "what is indexed"),
    ),
)

Kind = Literal["text", "headings", "summary", "questions", "context"]
Count = Annotated[int, Field(ge=1, strict=True)]
Texts = Sequence[Sequence[str]]
"""Of each chunk, in the order of the chunks."""


class IndexText(FileOptions):
    """One kind of text by which chunks are found; a word alone is its ``kind``.

    ``text`` is what is indexed without ``index_texts``, ``headings`` the title and the headings
    alone. ``summary``, ``questions`` (``count`` of them) and ``context``, a header that is put
    before the chunk's own text, are written: in ``file``, or by a language model. ``llm`` names one
    of the experiment's ``llms``; without it, it is the experiment's ``llm``. It is shown the chunk,
    for a ``context`` also ``document_characters`` of the document around it. ``language`` is said
    to the model as it stands; ``template`` is a prompt file in place of ours.
    """

    file_options: ClassVar[tuple[str, ...]] = ("file", "template")

    kind: Kind
    file: Path | None = None
    llm: str | None = None
    count: Count = 3
    document_characters: Count = 20_000
    language: str = SAME_LANGUAGE
    template: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Count = 256

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Self:
        allowed = {"kind"}
        if self.is_written and self.file is not None:
            allowed = {"kind", "file"}
        elif self.is_written:
            others = {"count": QUESTIONS, "document_characters": CONTEXT}
            unused = {option for option, kind in others.items() if kind != self.kind}
            allowed = set(type(self).model_fields) - unused
        ignored = sorted(self.model_fields_set - allowed)
        if ignored:
            what = f"{self.kind} from a file" if "file" in allowed else self.kind
            raise ValueError(f"{', '.join(ignored)}: no option of {what}")
        return self

    @property
    def is_written(self) -> bool:
        """Whether somebody writes it: it does not follow from the chunk."""
        return self.kind in (SUMMARY, QUESTIONS, CONTEXT)

    @property
    def asks(self) -> bool:
        """Whether a language model writes it."""
        return self.is_written and self.file is None

    def described(self) -> Mapping[str, Any]:
        """Return the options that determine the texts, without names of files and models."""
        if not self.asks:
            return {"kind": self.kind}
        return self.model_dump(mode="json", exclude={*self.file_options, "llm"})


def _with_kind(item: object) -> object:
    return {"kind": item} if isinstance(item, str) else item


def _each_kind_once(items: tuple[IndexText, ...]) -> tuple[IndexText, ...]:
    kinds = [item.kind for item in items]
    for number, kind in enumerate(kinds):
        if kind in kinds[:number]:
            raise ValueError(f"'{kind}' stands twice")
    return items


_Item = Annotated[IndexText, BeforeValidator(_with_kind, json_schema_input_type=Kind | IndexText)]
IndexTexts = Annotated[tuple[_Item, ...], Field(min_length=1), AfterValidator(_each_kind_once)]
"""What stands under ``index_texts``."""


def index_texts(
    chunks: pa.Table, own: Sequence[str], kinds: Sequence[str], written: Mapping[str, Texts]
) -> pa.Table:
    """Return the texts by which chunks are found; equal texts of a chunk count once.

    A chunk that is left without any is found by its own text.

    Args:
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.
        own: what would be indexed of each chunk alone; it ends with the chunk's text.
        kinds: of texts, in their order.
        written: kind -> the texts that somebody wrote.

    Returns:
        Table of :data:`INDEX_TEXTS`, in the order of the chunks.
    """
    ids, texts_alone = (chunks.column(name).to_pylist() for name in ("chunk_id", "text"))
    headings = _headings(chunks)
    columns: dict[str, list[object]] = {name: [] for name in INDEX_TEXTS.arrow().names}
    for place, (chunk_id, text) in enumerate(zip(ids, texts_alone, strict=True)):
        found: dict[str, tuple[str, int]] = {}
        for kind in kinds:
            match kind:
                case "text":
                    texts: Sequence[str] = [own[place]]
                case "headings":
                    texts = [headings[place]]
                case "context":
                    before = own[place].removesuffix(text)
                    texts = [f"{before}{header}\n{text}" for header in written[kind][place]]
                case _:
                    texts = written[kind][place]
            for number, one in enumerate(texts):
                if one.strip():
                    found.setdefault(one, (kind, number))
        for one, (kind, number) in (found or {own[place]: (OWN_TEXT, 0)}).items():
            for column, value in zip(columns.values(), (chunk_id, kind, number, one), strict=True):
                column.append(value)
    return INDEX_TEXTS.check(pa.table(columns, schema=INDEX_TEXTS.arrow()))


def _headings(chunks: pa.Table) -> list[str]:
    """Return title and headings of each chunk, as they are indexed before a text."""
    empty = pa.array([""] * chunks.num_rows, pa.string())
    bare = chunks.set_column(chunks.column_names.index("text"), "text", empty)
    return [text.rstrip("\n") for text in indexed_texts(bare, headings=True)]


def index_rows(chunks: pa.Table, texts: pa.Table) -> pa.Table:
    """Return the rows of an index: a chunk for each of its texts, under an id of its own.

    Args:
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.
        texts: table of :data:`INDEX_TEXTS`, of these chunks.

    Returns:
        Table of ``CHUNKS`` with :data:`OF_CHUNK`. ``text`` is what is indexed, ``title`` that with
        which it begins, if it does.
    """
    ids = chunks.column("chunk_id").combine_chunks()
    rows = chunks.take(pc.index_in(texts.column("chunk_id"), ids))
    names = zip(*(texts.column(name).to_pylist() for name in INDEX_TEXTS.key), strict=True)
    titled = pc.is_in(texts.column("kind"), pa.array([OWN_TEXT, HEADINGS, CONTEXT]))
    columns = {
        "chunk_id": pa.array(["~".join(map(str, name)) for name in names], pa.string()),
        "title": pc.if_else(titled, rows.column("title"), ""),
        "text": texts.column("text"),
    }
    for name, values in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, values)
    return rows.append_column(OF_CHUNK, texts.column("chunk_id"))
