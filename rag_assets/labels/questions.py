"""Questions that a model writes: their options, as queries, as a sheet for people, as a dataset.

The sheet holds all that a question is made of, so it can be read back on another machine; the quote
is compared with the documents as they are then. The dataset is a folder that is read like any
other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.errors import StoreError, UsageError
from rag_assets.labels.pool import PLACE, texts_of
from rag_assets.labels.sheets import Cells, CsvSheet, whole_number
from rag_assets.llm.client import Template, packaged_template
from rag_assets.options import FileOptions, Number
from rag_assets.plain_text import CELL_MAY_BE_CUT, fitting, is_shown_as, shortened
from rag_assets.schemas import COUNT, QRELS, QUERIES, TEXT, Column, TableSchema, column_values
from rag_assets.sources.fields import Place, checked_id, shown
from rag_assets.sources.writers import Losses, Tables, write_jsonl
from rag_assets.store.atomic import atomic_directory
from rag_assets.store.canonical import canonical_json, permanent_hash

QUESTIONS = TableSchema(
    "generated_questions",
    "one question that was kept",
    ("query_id",),
    query_id=Column(TEXT, "id, made of the question and its chunk"),
    text=Column(TEXT, "the question"),
    answer=Column(TEXT, "the model's own answer, null when it gave none", True),
    chunk_id=Column(TEXT, "the chunk that it was made from"),
    document_id=Column(TEXT, "the document of the chunk"),
    start=Column(COUNT, "first character of the chunk in the document's text"),
    end=Column(COUNT, "character after its last one"),
    source=Column(TEXT, "model and prompt that wrote it, such as my-model questions/1"),
)

TAG = "generated"
"""Tag of every query that a language model wrote."""

SOURCE_DOCUMENT = "source_document"

_NAMED = 3
"""Models that a note names."""


def queries_of(questions: pa.Table) -> pa.Table:
    """Return a query for each question of a table :data:`QUESTIONS`: ``schemas.QUERIES``."""
    rows: list[dict[str, object]] = []
    for row in QUESTIONS.check(questions).to_pylist():
        answers = {"answers": [row["answer"]]} if row["answer"] else {}
        origin = {SOURCE_DOCUMENT: row["document_id"], "source_chunk": row["chunk_id"]}
        metadata = canonical_json({**answers, **origin, "source": row["source"]})
        head = {"query_id": row["query_id"], "text": row["text"], "tags": [TAG]}
        rows.append({**head, "metadata": metadata})
    return QUERIES.from_rows(rows)


def qrels_of(questions: pa.Table) -> pa.Table:
    """Return the span of its chunk as the one evidence of each question, of grade 1."""
    rows = QUESTIONS.check(questions).select(PLACE).to_pylist()
    for row in rows:
        row |= {"evidence_id": f"{row['document_id']}#{row['start']}-{row['end']}", "grade": 1}
    return QRELS.from_rows(rows)


def question_authors(queries: pa.Table) -> Counter[str]:
    """Return model -> how many of the queries it wrote: its name stands in ``source``."""
    counts: Counter[str] = Counter()
    for tags, metadata in column_values(queries, "tags", "metadata"):
        source = json.loads(metadata or "{}").get("source") if TAG in (tags or ()) else None
        if isinstance(source, str) and source.strip():
            counts[source.split()[0]] += 1  # before the name of the prompt
    return counts


def authors_note(queries: pa.Table) -> str | None:
    """Return one line on questions and labels that models wrote; None where there are none."""
    authors = question_authors(queries)
    if not authors:
        return None
    named = [f"{shortened(model)} ({n})" for model, n in authors.most_common(_NAMED)]
    models = ", ".join([*named, *(["others"] if len(authors) > _NAMED else [])])
    of = f"{authors.total()} of {queries.num_rows} questions and their labels"
    easier = "such questions are easier than questions from people"
    return f"{of} were written by a model, not by people: {models}; {easier}"


_CHUNK = ("document_id", "start", "end", "chunk_id")
SHEET = CsvSheet(("keep", "question", "answer", "quote", *_CHUNK, "query_id", "source"), ("keep",))
_KEEP = dict.fromkeys(("yes", "y", "1", "x"), True) | dict.fromkeys(("no", "n", "0"), False)


class Reviewed(NamedTuple):
    """What a sheet says.

    ``questions`` is a table of :data:`QUESTIONS`, those with a yes, worded as on the sheet; then
    how many have a no, and how many neither, which are not taken.
    """

    questions: pa.Table
    n_refused: int
    n_open: int


def review_sheet(questions: pa.Table, documents: pa.Table) -> str:
    """Return the sheet, with an empty column ``keep`` and a byte order mark."""
    texts = texts_of(documents)
    rows = []
    for row in QUESTIONS.check(questions).to_pylist():
        quote = fitting(texts[row["document_id"]][row["start"] : row["end"]], lambda _: "")
        cells = {**row, "keep": "", "question": row["text"], "quote": quote}
        rows.append([cells[name] for name in SHEET.columns])  # None is an empty cell
    return SHEET.text(rows)


def read_review(file: Path, documents: pa.Table) -> Reviewed:
    """Return the questions that people want to keep, in the order of the sheet.

    Rows may be missing, moved, and questions be worded better.

    Raises:
        DataError: a column is missing, two rows on a question differ, ``keep`` is no yes and no
            no, or a document does not hold the quote (any more).
    """
    texts = texts_of(documents)

    def read(cells: Cells, place: Place) -> tuple[str, dict[str, object] | None]:
        query_id = checked_id(cells["query_id"], place, "query_id")
        word = cells["keep"].strip().lower()
        if word not in _KEEP:
            allowed = ", ".join(_KEEP)
            raise place.error(f"is {shown(cells['keep'])}; allowed: {allowed}, or nothing", "keep")
        return query_id, _question(cells, place, texts) if _KEEP[word] else None

    rows, n_open = SHEET.filled(file, read, lambda row: row)
    accepted = [question for (_, question), _ in rows if question is not None]
    return Reviewed(QUESTIONS.from_rows(accepted), len(rows) - len(accepted), n_open)


def _question(cells: Cells, place: Place, texts: Mapping[str, str]) -> dict[str, object]:
    document_id, text = cells["document_id"], " ".join(cells["question"].split())
    if document_id not in texts:
        raise place.error(f"{shown(document_id)} is not one of the documents", "document_id")
    start, end = (whole_number(cells, name, place) for name in ("start", "end"))
    if not _is_quoted(texts[document_id][start:end], cells["quote"]):
        problem = f"is not the text of {shown(document_id)} from {start} to {end} (any more)"
        raise place.error(problem, "quote")
    if not text:
        raise place.error("is blank; write no under keep to drop it", "question")
    copied = {name: cells[name] for name in ("query_id", "chunk_id", "document_id", "source")}
    answer = cells["answer"].strip() or None
    return {**copied, "text": text, "answer": answer, "start": start, "end": end}


def _is_quoted(span: str, quote: str) -> bool:
    """Compare without regard to blanks: programs write line ends as they like."""
    span_words, quote_words = " ".join(span.split()), " ".join(quote.split())
    cut = len(quote) >= CELL_MAY_BE_CUT and span_words.startswith(quote_words)
    return quote_words == span_words or cut or is_shown_as(quote, span)


_YAML = """\
dataset: {format: jsonl}
# Questions from one document are not independent: intervals and tests draw documents.
statistics: {cluster: query.source_document}
"""


def check_free(path: Path) -> None:
    """Check that a sheet, or the folder of a dataset, may be written as ``path``.

    Raises:
        UsageError: something is there, perhaps with the work of people in it.
        StoreError: its folder cannot be looked into.
    """
    try:
        is_empty = path.is_dir() and not path.is_symlink() and not any(path.iterdir())
        if not is_empty and (path.exists() or path.is_symlink()):
            raise UsageError(f"{path}: already exists; choose another name, or remove it")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def write_folder(questions: pa.Table, documents: pa.Table, folder: Path) -> None:
    """Write ``folder``, which is there in the end only when all of it is.

    It holds all documents that are searched, those of the questions among them. Its
    ``experiment.yaml`` makes intervals and tests cluster by ``source_document``.

    Raises:
        UsageError: see :func:`check_free`.
        StoreError: the folder cannot be written.
    """
    check_free(folder)
    tables = Tables(documents, queries_of(questions), qrels_of(questions))
    with atomic_directory(folder) as temporary:
        write_jsonl(tables, temporary, Losses())
        (temporary / "experiment.yaml").write_text(_YAML, encoding="utf-8")


SAME_LANGUAGE = "the language of the text"
_PLACES = ("n", "language", "title")

Spread = Literal["document", "heading"]
_GROUPS = {"document": ("document_id",), "heading": ("document_id", "heading_path")}

Count = Annotated[int, Field(ge=1, strict=True)]


class QuestionOptions(FileOptions):
    """Questions that a language model writes from chunks, each with the span of its chunk as label.

    They replace the queries and labels of the dataset. ``chunking`` names the chunks to use if
    there are several chunkings; ``llm`` names one of ``llms`` (default: the experiment's ``llm``).
    Chunks whose text has ``min_characters`` to ``max_characters`` are used. At most ``chunks`` of
    these are drawn, by hashes of their ids and ``seed``. With ``spread: document``, every document
    has one chunk drawn before any has two; with ``heading``, every heading of a document does.
    ``n`` is the number of questions for each chunk. ``language`` goes into the prompt unchanged;
    ``template`` is a prompt file that replaces ours. Questions are dropped by ``min_words``,
    ``max_copied`` and ``near_duplicate``. ``rag-assets generate`` sends the same requests.
    """

    file_options: ClassVar[tuple[str, ...]] = ("template",)

    chunking: str | None = None
    llm: str | None = None
    n: Count = 2
    chunks: Count | None = None
    spread: Spread | None = None
    min_characters: Count = 1
    max_characters: Count | None = None
    language: str = SAME_LANGUAGE
    template: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    max_tokens: Count = 512
    min_words: Count = 4
    max_copied: Annotated[Number, Field(ge=0, le=1)] = 0.8
    near_duplicate: Annotated[Number, Field(gt=0, le=1)] = 0.8

    @model_validator(mode="after")
    def _some_length(self) -> Self:
        if self.max_characters is not None and self.max_characters < self.min_characters:
            problem = f"must be at least min_characters, {self.min_characters}"
            raise ValueError(f"max_characters {self.max_characters} {problem}")
        if self.spread is not None and self.chunks is None:
            raise ValueError("spread sets which `chunks` are drawn; give their number too")
        return self

    def question_prompt(self) -> Template:
        """Return the packaged prompt, or the one of the file."""
        return packaged_template("questions", ["text"], _PLACES, self.template)

    def chosen_chunks(self, chunks: pa.Table) -> pa.Table:
        """Return the chunks that are asked about, in their order; blank ones are not among them.

        The draw goes by the ids' hashes, so a chunk more or less changes at most one of those
        drawn.
        """
        longest = self.max_characters or float("inf")
        rows = [
            row
            for row, text in enumerate(chunks.column("text").to_pylist())
            if self.min_characters <= len(text.strip()) <= longest
        ]
        if self.chunks is not None and self.chunks < len(rows):
            rows = sorted(self._drawn(chunks, rows)[: self.chunks])
        return chunks.take(pa.array(rows, pa.int64()))

    def _drawn(self, chunks: pa.Table, rows: Sequence[int]) -> Sequence[int]:
        """Return rows in the order in which they are drawn."""
        ids = chunks.column("chunk_id").to_pylist()
        by_hash = sorted(rows, key=lambda row: permanent_hash(self.seed, ids[row]))
        if self.spread is None:
            return by_hash
        columns = [chunks.column(name).to_pylist() for name in _GROUPS[self.spread]]
        n_before: Counter[tuple[str, ...]] = Counter()
        places: dict[int, tuple[int, bytes]] = {}
        for row in by_hash:
            group = tuple(column[row] for column in columns)
            places[row] = n_before[group], permanent_hash(self.seed, *group)
            n_before[group] += 1
        return sorted(by_hash, key=lambda row: places[row])
