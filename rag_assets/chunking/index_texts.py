"""``index_texts`` of a chunking: the texts by which a chunk is found, besides its own or instead.

This is LangChain's and LlamaIndex's multi-vector retrieval. Each text is a row of an index, and a
hit on any of them is a hit on its chunk: which chunk a row is of stands beside the index.
Summaries, questions and context headers are read from a file, or asked of a language model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rag_assets.errors import DataError
from rag_assets.llm.client import (
    Answer,
    ChatRequest,
    Failed,
    Template,
    packaged_template,
    passages_block,
)
from rag_assets.llm.completions import Completions
from rag_assets.options import FileOptions, Number
from rag_assets.plain_text import without_obeyed
from rag_assets.query_sets.model_output import Unusable, parsed_list, parsed_passage
from rag_assets.schemas import COUNT, TEXT, Column, TableSchema, column_values
from rag_assets.sources.fields import Id, Place, Position, note
from rag_assets.sources.row_files import read_declared

HEADING_SEPARATOR = " > "
"""Stands between the headings of a path."""

OWN_TEXT, HEADINGS = "text", "headings"
SUMMARY, QUESTIONS, CONTEXT = "summary", "questions", "context"

SAME_LANGUAGE = "the language of the passage"

OF_CHUNK = "indexed_chunk_id"
"""Column beside the ids of an index's rows: the chunk that each is a text of."""

MAX_CHARACTERS = 4_000
"""Of a text that somebody wrote of a chunk."""

INDEX_TEXTS = TableSchema(
    "index_texts",
    "one text by which a chunk is found",
    ("chunk_id", "kind", "number"),
    chunk_id=Column(TEXT, "the chunk"),
    kind=Column(TEXT, "text, headings, summary, questions or context"),
    number=Column(COUNT, "0, 1, ... where a chunk has several of a kind"),
    text=Column(TEXT, "what is indexed"),
)

Kind = Literal["text", "headings", "summary", "questions", "context"]
Count = Annotated[int, Field(ge=1, strict=True)]
Texts = Sequence[Sequence[str]]
"""Of each chunk, in the order of the chunks."""


class IndexText(FileOptions):
    """One kind of text by which chunks are found; a word alone is its ``kind``.

    ``text`` is what is indexed without ``index_texts``, ``headings`` the title and the headings
    alone. ``summary``, ``questions`` (``count`` of them) and ``context``, a header that is put
    before the chunk's own text, are written: in ``file``, or by a language model. ``llm`` names
    one of the experiment's ``llms`` (default: its ``llm``). The model gets the chunk,
    and for a ``context`` also ``document_characters`` of the document around it. ``language`` goes
    into the prompt unchanged; ``template`` is a prompt file that replaces ours.
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
            raise ValueError(f"{', '.join(ignored)}: not an option of {what}")
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
            raise ValueError(f"'{kind}' occurs twice")
    return items


_Item = Annotated[IndexText, BeforeValidator(_with_kind, json_schema_input_type=Kind | IndexText)]
IndexTexts = Annotated[tuple[_Item, ...], Field(min_length=1), AfterValidator(_each_kind_once)]
"""What stands under ``index_texts``."""


def indexed_texts(chunks: pa.Table, *, headings: bool = False) -> pa.ChunkedArray:
    """Return what is indexed for each chunk: title, heading path, text, a line each.

    Args:
        chunks: ``CHUNKS``.
        headings: True if the heading path takes part; a first heading that only repeats the title
            does not.
    """
    before = [chunks["title"]]
    if headings:
        paths = column_values(chunks, "heading_path", "title")
        before.append(pa.chunked_array([[_without_title(*each) for each in paths]], pa.string()))
    lines = [pc.if_else(pc.equal(each, ""), pa.scalar(None, pa.string()), each) for each in before]
    return pc.binary_join_element_wise(*lines, chunks["text"], "\n", null_handling="skip")


def _without_title(path: str, title: str) -> str:
    if path == title:
        return ""
    return path.removeprefix(title + HEADING_SEPARATOR) if title else path


def index_texts(
    chunks: pa.Table, own: Sequence[str], kinds: Sequence[str], written: Mapping[str, Texts]
) -> pa.Table:
    """Return the texts by which chunks are found, as ``INDEX_TEXTS`` in the order of the chunks.

    Equal texts of a chunk count once. A chunk that is left without any is found by its own text.

    Args:
        chunks: ``CHUNKS``.
        own: what would be indexed of each chunk alone; it ends with the chunk's text.
        kinds: of texts, in their order.
        written: kind -> the texts that somebody wrote.
    """
    ids, alone = (chunks.column(name).to_pylist() for name in ("chunk_id", "text"))
    whole = zip(indexed_texts(chunks, headings=True).to_pylist(), alone, strict=True)
    headings = [lines.removesuffix(text).rstrip("\n") for lines, text in whole]
    rows: list[dict[str, object]] = []
    for place, (chunk_id, text) in enumerate(zip(ids, alone, strict=True)):
        of_chunk: dict[str, tuple[str, int]] = {}
        before = own[place].removesuffix(text)
        for kind in kinds:
            if kind == CONTEXT:
                texts: Sequence[str] = [f"{before}{more}\n{text}" for more in written[kind][place]]
            elif kind in written:
                texts = written[kind][place]
            else:
                texts = [own[place] if kind == OWN_TEXT else headings[place]]
            for number, indexed in enumerate(texts):
                if indexed.strip():
                    of_chunk.setdefault(indexed, (kind, number))
        for indexed, (kind, number) in (of_chunk or {own[place]: (OWN_TEXT, 0)}).items():
            row = {"chunk_id": chunk_id, "kind": kind, "number": number, "text": indexed}
            rows.append(row)
    return INDEX_TEXTS.from_rows(rows)


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
    names = column_values(texts, *INDEX_TEXTS.key)
    titled = pc.is_in(texts.column("kind"), pa.array([OWN_TEXT, HEADINGS, CONTEXT]))
    columns = {
        "chunk_id": pa.array(["~".join(map(str, name)) for name in names], pa.string()),
        "title": pc.if_else(titled, rows.column("title"), ""),
        "text": texts.column("text"),
    }
    for name, values in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, values)
    return rows.append_column(OF_CHUNK, texts.column("chunk_id"))


class WrittenTexts(NamedTuple):
    """What was written about chunks.

    Attributes:
        texts: of each chunk; none of a chunk without any.
        notes: one line for each thing worth telling people.
        unanswered: how many requests a server did not answer.
        served_models: the names that the server gave the model, by the first reply that is stored.
    """

    texts: Texts
    notes: Sequence[str] = ()
    unanswered: int = 0
    served_models: Sequence[str] = ()


def template_of(option: IndexText) -> Template:
    """Return the packaged prompt of a kind, or the one in its file.

    Raises:
        ConfigError: the file is no prompt with a place for each that is needed.
    """
    needed = ["chunk", "document"] if option.kind == CONTEXT else ["chunk"]
    allowed = ["language", "n"] if option.kind == QUESTIONS else ["language"]
    return packaged_template(f"chunk_{option.kind}", needed, allowed, option.template)


def chunk_requests(
    option: IndexText, chunks: pa.Table, documents: Mapping[str, str]
) -> list[ChatRequest]:
    """Return what is asked, a request for each chunk that holds text, in their order.

    Texts of documents stand between marks in the prompt.

    Args:
        option: what is written.
        chunks: ``CHUNKS``.
        documents: document id -> its text, which a ``context`` is shown.
    """
    template, most = template_of(option), option.document_characters
    shown_texts = indexed_texts(chunks, headings=True).to_pylist()
    places = list(column_values(chunks, "document_id", "start", "end", "title"))
    requests = []
    for row in _rows_with_text(chunks):
        passages = {"chunk": passages_block([shown_texts[row]], option.kind)}
        if option.kind == CONTEXT:
            document_id, start, end, title = places[row]
            text = documents[document_id]
            first = max(0, min((start + end - most) // 2, len(text) - most))
            around = f"{title}\n{text[first : first + most]}"
            passages["document"] = passages_block([around], option.kind)
        requests.append(
            ChatRequest(
                template.filled({"language": option.language, "n": option.count, **passages}),
                option.temperature,
                option.seed,
                option.max_tokens,
                template.label,
            )
        )
    return requests


def asked_texts(
    option: IndexText, chunks: pa.Table, documents: Mapping[str, str], completions: Completions
) -> WrittenTexts:
    """Ask about every chunk that holds text; arguments as in :func:`chunk_requests`.

    Raises:
        BudgetReached: the limits allow no more; what was answered is in the cache.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
        DataError: no answer is of any use.
    """
    answers = completions.answer(chunk_requests(option, chunks, documents))
    ids: list[str] = chunks.column("chunk_id").to_pylist()
    texts: list[list[str]] = [[] for _ in ids]
    failures: dict[str, str] = {}
    for row, answer in zip(_rows_with_text(chunks), answers, strict=True):
        parsed = parsed_texts(option, answer)
        if isinstance(parsed, Unusable):
            failures[ids[row]] = parsed.reason
        else:
            texts[row] = parsed
    if answers and len(failures) == len(answers):
        chunk_id, reason = next(iter(failures.items()))
        problem = f"the model wrote nothing usable for any of {len(answers)} chunks"
        raise DataError(f"index_texts {option.kind}: {problem}; of {chunk_id}: {reason}")
    unanswered = sum(isinstance(answer, Failed) for answer in answers)
    return WrittenTexts(texts, _without(option, failures), unanswered, completions.served_models)


def parsed_texts(option: IndexText, answer: Answer) -> list[str] | Unusable:
    """Return what a model wrote, each text on one line without control characters.

    One above :data:`MAX_CHARACTERS`, or without a character that can be seen, is not taken.
    """
    if option.kind == QUESTIONS:
        parsed = parsed_list(answer, "", option.count)
    else:
        parsed = parsed_passage(answer, "")
    if isinstance(parsed, Unusable):
        return parsed
    plain = [line for text in parsed if (line := _plain(text))]
    if not plain:
        return Unusable("the answer holds no text")
    short = [text for text in plain if len(text) <= MAX_CHARACTERS]
    problem = f"the answer has {len(plain[0])} characters; {MAX_CHARACTERS} are taken"
    return short or Unusable(problem)


def texts_from_file(option: IndexText, file: Path, chunks: pa.Table) -> WrittenTexts:
    """Return the texts of a file: JSON lines ``{"document_id", "start", "end", "texts"}``.

    A row belongs to each chunk that holds half of its span, or of which half lies inside it, as a
    label does: so a file outlives another chunking.

    Raises:
        DataError: the file cannot be read, a row breaks its format, or none fits a chunk; names
            file, line and key.
    """
    names = ("chunk_id", "document_id", "start", "end")
    ids, documents, starts, ends = (chunks.column(name).to_pylist() for name in names)
    of_document: dict[str, list[int]] = defaultdict(list)
    for row, document_id in enumerate(documents):
        of_document[document_id].append(row)
    texts: list[list[str]] = [[] for _ in ids]
    n_rows, unused = 0, list[str]()
    for place, written in _file_rows(file):
        n_rows += 1
        fits = False
        for row in of_document.get(str(written.document_id), ()):
            common = min(written.end, ends[row]) - max(written.start, starts[row])
            length = min(written.end - written.start, ends[row] - starts[row])
            if common > 0 and 2 * common >= length:
                texts[row] += written.texts
                fits = True
        unused += [] if fits else [f"line {place.line}"]
    if n_rows == len(unused) and ids:
        raise DataError(f"none of its {n_rows} rows matches a chunk", file=file)
    without = [name for name, of_chunk in zip(ids, texts, strict=True) if not of_chunk]
    of_others = note("row matches no chunk", "rows match no chunk", unused)
    return WrittenTexts(texts, [*_without(option, without), *of_others])


def _without(option: IndexText, chunk_ids: Collection[str]) -> list[str]:
    problem = f"without {option.kind}: found by their other indexed texts"
    return note(f"chunk {problem}", f"chunks {problem}", list(chunk_ids))


def _rows_with_text(chunks: pa.Table) -> list[int]:
    texts = chunks.column("text").to_pylist()
    return [row for row, text in enumerate(texts) if text.strip()]


def _plain(text: str) -> str:
    return " ".join(without_obeyed(text).split())


class _FileRow(msgspec.Struct, forbid_unknown_fields=True):
    """What was written of a span of a document."""

    document_id: Id
    start: Position
    end: Position
    texts: Annotated[
        list[str], msgspec.Meta(min_length=1, description="a list of one or more texts")
    ]


def _file_rows(file: Path) -> Iterator[tuple[Place, _FileRow]]:
    for place, row in read_declared(file, _FileRow):
        if row.start >= row.end:
            raise place.error(f"is {row.end}; must be above start, {row.start}", "end")
        row.texts = [_plain(text) for text in row.texts]
        for number, text in enumerate(row.texts, start=1):
            if not text or len(text) > MAX_CHARACTERS:
                allowed = f"1 to {MAX_CHARACTERS:,} are taken"
                raise place.error(f"text {number} has {len(text)} characters; {allowed}", "texts")
        yield place, row
