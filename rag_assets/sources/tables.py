"""The three tables in the making, and their ids.

They are built batch by batch, so that a large corpus never exists as Python rows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES, TableSchema, column_values
from rag_assets.sources.dataset import (
    DUPLICATE_ID,
    DUPLICATE_JUDGMENT,
    EMPTY,
    FIRST,
    ID_LEVEL,
    UNKNOWN_ID,
    Problems,
    Read,
    error_context,
)
from rag_assets.sources.fields import DocumentFields, Place, Row, composed, note, shown
from rag_assets.sources.row_files import RowFile, parse_object, read_contents, read_raw_lines
from rag_assets.store.blocks import BlockedTable, is_end, records_digest
from rag_assets.store.large_tables import Ids

BATCH_ROWS = 16_384
BATCH_CHARACTERS = 8_000_000
QrelKey = tuple[str, str, str, int | None, int | None]
UNKNOWN_DOCUMENTS = "unknown_documents"

KEEP = "keep"
"""``dataset: {unknown_documents: keep}``: what to write so that such judgments are kept."""

WITHOUT_RELEVANT = "without a relevant document"

_CHUNK_OF = (
    re.compile(r"(?P<document>.+)#\d+-\d+"),
    re.compile(r"(?P<document>.+?)[#:/_.\-]+(?:chunk|passage|part|node|p)?[#:_\-]*\d+", re.I),
)
"""Our own chunk ids, then those of other tools: ``doc_3``, ``doc-chunk-3``, ``doc::chunk_3``."""

MAX_COMPARED_IDS = 20_000
"""Above so many ids no nearest one is looked for: comparing takes seconds."""

MAX_EXPLAINED_IDS = 20
"""For so many unknown ids the nearest one is looked for."""


def are_distinct(ids: pa.ChunkedArray) -> bool:
    """Return whether no id occurs twice; of 10^7 ids once in a million times no is wrong."""
    hashes = np.fromiter(map(hash, Ids(ids)), np.int64, len(ids))
    hashes.sort()
    return not (hashes[1:] == hashes[:-1]).any()


class UniqueIds:
    """The ids so far, each with its first place."""

    def __init__(self, kind: str) -> None:
        """Watch over ids of ``kind`` (``document``, ``query``)."""
        self._kind = kind
        self._places: dict[str, Place] = {}

    def add(self, new_id: str, place: Place, key: str) -> None:
        """Remember an id that stands under ``key``."""
        if new_id not in self._places:
            self._places[new_id] = place
            return
        first = self._places[new_id]
        where = f"on line {first.line}" if first.line else f"at `{first.inside(key)}`"
        of_file = f" of {first.file.name}" if first.file != place.file else ""
        problem = f"{self._kind} id {shown(new_id)} occurs twice, first {where}{of_file}"
        raise place.error(problem, key, DUPLICATE_ID)


class KnownIds:
    """The ids of a table, with their rows.

    Of an id that does not exist the nearest one is told, or that it is the id of a chunk, where a
    document is meant.
    """

    def __init__(self, kind: str, ids: pa.ChunkedArray, remedy: str = "") -> None:
        """Know the ``ids`` of ``kind`` (``document``, ``query``).

        ``remedy`` is said once, of the first that is unknown: what to do with all of them.
        """
        self._kind = kind
        self._remedy = remedy
        self._ids = Ids(ids)
        # Not a dictionary, which takes ten times the memory: of a large corpus few ids are judged.
        hashes = np.fromiter(map(hash, self._ids), np.int64, len(ids))
        self._order = hashes.argsort()
        self._hashes = hashes[self._order]
        self._rows: dict[str, int] = {}
        self._unknown = 0

    def __contains__(self, name: str) -> bool:
        """Return whether the id exists."""
        if name not in self._rows:
            start, end = (self._hashes.searchsorted(hash(name), side) for side in ("left", "right"))
            for row in self._order[start:end].tolist():
                if self._ids[row] == name:
                    self._rows[name] = row
        return name in self._rows

    def row(self, name: str, place: Place, key: str) -> int:
        """Return the row of an id."""
        if name in self:
            return self._rows[name]
        check, problem = self.explain(name)
        raise place.error(problem, key, check)

    def explain(self, unknown: str) -> tuple[str, str]:
        """Return the kind of problem that an unknown id is, and a sentence about it."""
        problem = f"unknown {self._kind} {shown(unknown)}"
        for pattern in _CHUNK_OF if self._kind == "document" else ():
            chunk = pattern.fullmatch(unknown)
            if chunk is not None and chunk["document"] in self:
                meant = shown(chunk["document"])
                return ID_LEVEL, f"{problem}: it is the id of a chunk; probably meant: {meant}"
        self._unknown += 1
        if len(self._ids) <= MAX_COMPARED_IDS and self._unknown <= MAX_EXPLAINED_IDS:
            bare, others = unknown.lstrip("0"), [*self._ids]
            padded = [other for other in others if other.lstrip("0") == bare]
            part = re.compile(rf"(?:^|/){re.escape(unknown)}(?:[.#/]|$)")
            longer = [other for other in others if part.search(other)]
            near = padded or longer or get_close_matches(unknown, others, n=1)
            form, end = composed(unknown), ", in another Unicode normal form"
            same = [f"{shown(other)}{end}" for other in others if composed(other) == form]
            hints = same or [*map(shown, near)]
            problem += f" (did you mean {hints[0]}?)" if hints else ""
        if self._unknown == 1 and self._remedy:
            problem += f"; {self._remedy}"
        return UNKNOWN_ID, problem


class _Rows(ABC):
    """Collects rows and turns them into Arrow whenever a batch is full."""

    schema: ClassVar[TableSchema]
    none: ClassVar[str]
    """What is said where there is no row."""

    def __init__(self) -> None:
        """Start without rows."""
        self._arrow = self.schema.arrow()
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[tuple[object, ...]] = []
        self._characters = 0

    def _add(self, *values: object, characters: int = 0) -> None:
        """Add a row, its values in declared order; ``characters`` says how large it is."""
        self._rows.append(values)
        self._characters += characters
        if len(self._rows) >= BATCH_ROWS or self._characters >= BATCH_CHARACTERS:
            self._flush()

    def table(self) -> pa.Table:
        """Return the checked table of all rows."""
        self._flush()
        return self.schema.check(pa.Table.from_batches(self._batches, schema=self._arrow))

    def read(self, place: Place, notes: list[str]) -> Read:
        """Return the table, with ``notes`` before its own."""
        table = self.table()
        if not table.num_rows:
            raise place.error(self.none, check=EMPTY)
        return Read(table, notes + self._notes(table, place))

    @abstractmethod
    def _notes(self, table: pa.Table, place: Place) -> list[str]:
        """Return what is to be told of the table."""

    def _flush(self) -> None:
        if self._rows:
            # The system's allocator can grow a buffer without copying it: measured faster than
            # the default pool, with less memory at the peak.
            pool = pa.system_memory_pool()
            columns = [
                pa.array(values, field.type, memory_pool=pool)
                for values, field in zip(zip(*self._rows, strict=True), self._arrow, strict=True)
            ]
            self._batches.append(pa.record_batch(columns, schema=self._arrow))
        self._rows = []
        self._characters = 0


class DocumentRows(_Rows):
    """Documents in the making; the ids are unique already."""

    schema: ClassVar[TableSchema] = DOCUMENTS
    none: ClassVar[str] = "holds no document; at least one is needed"

    def add(self, document_id: str, title: str, text: str, metadata: str = "{}") -> None:
        """Add a document; one without title and text is kept and noted."""
        size = len(title) + len(text) + len(metadata)
        self._add(document_id, title, text, metadata, characters=size)

    def _notes(self, table: pa.Table, place: Place) -> list[str]:
        return self.notes_on(table)

    @staticmethod
    def notes_on(table: pa.Table) -> list[str]:
        """Return a line on the documents that are empty; none where there are none."""
        suspects = table.select(["document_id", "title", "text"])
        for name in ("text", "title"):
            # Most have a character that no alphabet takes for white space; others are looked at.
            has_letter = pc.match_substring_regex(suspects.column(name), "[!-~]")
            suspects = suspects.filter(pc.invert(has_letter))
        rows = column_values(suspects, "document_id", "title", "text")
        empty = [name for name, title, text in rows if not title.strip() and not text.strip()]
        return note("empty document", "empty documents", empty)


class QueryRows(_Rows):
    """Queries in the making; the ids are unique already."""

    schema: ClassVar[TableSchema] = QUERIES
    none: ClassVar[str] = "holds no query; at least one is needed"

    def add(self, query_id: str, text: str, tags: list[str], metadata: str = "{}") -> None:
        """Add a query; an empty one is kept and noted: it finds nothing and counts 0."""
        self._add(query_id, text, tags, metadata, characters=len(text) + len(metadata))

    def _notes(self, table: pa.Table, place: Place) -> list[str]:
        rows = zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True)
        empty = [name for name, text in rows if not text.strip()]
        return note("empty query", "empty queries", empty)


class QrelRows(_Rows):
    """Qrels in the making: known queries and documents, no judgment twice."""

    schema: ClassVar[TableSchema] = QRELS
    none: ClassVar[str] = "holds no judgment; labels are required"

    def __init__(self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST) -> None:
        """Judge these documents for these queries."""
        super().__init__()
        keep = f"`dataset: {{{UNKNOWN_DOCUMENTS}: {KEEP}}}` keeps such judgments"
        document_ids, self._query_ids = documents.column("document_id"), queries.column("query_id")
        self._documents = KnownIds("document", document_ids, keep)
        self._queries = KnownIds("query", self._query_ids)
        self._keeps_unknown = problems.keeps_unknown
        self._kept: list[tuple[str, int]] = []
        self._lines: dict[QrelKey, int | None] = {}
        self._answerable: set[str] = set()

    def resolve(
        self, query_id: str, document_id: str, place: Place, keys: tuple[str, str]
    ) -> int | None:
        """Return the document's row in the documents table; None: it has none, and is kept.

        ``keys`` are where the source has the query's and the document's id, for the error.
        """
        with error_context(query_id, document_id):
            self._queries.row(query_id, place, keys[0])
            if self._keeps_unknown and document_id not in self._documents:
                return None
            return self._documents.row(document_id, place, keys[1])

    def add(
        self,
        place: Place,
        query_id: str,
        document_id: str,
        grade: int,
        evidence_id: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        """Add a judgment of known ids.

        Without ``evidence_id`` it is an evidence of its own: the document's id, or
        ``document_id#start-end`` for a span.
        """
        start, end = span or (None, None)
        characters = f"{start}-{end}"
        evidence = evidence_id or (document_id if span is None else f"{document_id}#{characters}")
        key = (query_id, evidence, document_id, start, end)
        if key in self._lines:
            first, where = self._lines[key], f", characters {characters}" if span else ""
            pair = f"query {shown(query_id)} and document {shown(document_id)}{where}"
            times = "twice" if first is None else f"twice, first on line {first}"
            with error_context(query_id, document_id, evidence):
                raise place.error(f"{pair} are judged {times}", check=DUPLICATE_JUDGMENT)
        self._lines[key] = place.line
        self._add(*key, grade)
        if document_id not in self._documents:
            self._kept.append((document_id, grade))
        if grade > 0:
            self._answerable.add(query_id)

    def _notes(self, table: pa.Table, place: Place) -> list[str]:
        n, relevant = len(self._kept), sum(grade > 0 for _, grade in self._kept)
        named = list(dict.fromkeys(document_id for document_id, _ in self._kept))
        if n == table.num_rows:
            first = shown(named[0])
            raise place.error(f"names no document of the corpus; the first one is {first}")
        rest = f"; such judgments are kept: {n}, of which relevant: {relevant}"
        one, many = "judged document is not in the corpus", "judged documents are not in the corpus"
        notes = note(f"{one}{rest}", f"{many}{rest}", named)
        return notes + without_relevant(self._query_ids, self._answerable)


def without_relevant(query_ids: pa.ChunkedArray, answerable: Collection[str]) -> list[str]:
    """Return a note on the queries for which nothing is relevant; none where there are none."""
    without = [name for name in query_ids.to_pylist() if name not in answerable]
    return note(f"query {WITHOUT_RELEVANT}", f"queries {WITHOUT_RELEVANT}", without)


FieldsOf = Callable[[Row, Place], DocumentFields]
"""Gives the fields of a document for its row."""


def read_document_rows(
    sources: Sequence[RowFile],
    fields_of: FieldsOf,
    problems: Problems,
    prepare: Callable[[Row], Row] | None = None,
) -> Read:
    """Return the documents of files with a row for each; ``prepare`` is done to a row before."""
    rows, ids = DocumentRows(), UniqueIds("document")
    for source in sources:
        for place, row in source.rows():
            fields = fields_of(row, place)
            with problems:
                document_id = fields.read_id(row, place)
                ids.add(document_id, place, ", ".join(fields.document_id))
                rows.add(document_id, *fields.read_rest(prepare(row) if prepare else row, place))
    notes = dict.fromkeys(line for source in sources for line in source.notes())
    return rows.read(Place(sources[0].file), list(notes))


def add_documents(built: BlockedTable, file: Path, fields_of: FieldsOf) -> None:
    """Add the documents of JSON lines in blocks; those that are known are not parsed again.

    Raises:
        DataError: a line is no document. :func:`read_document_rows` says which one.
    """

    def parsed(lines: pa.Table) -> pa.Table:
        rows = DocumentRows()
        for line in lines["line"].to_pylist():
            place, row = parse_object((Place(file), line))
            fields = fields_of(row, place)
            rows.add(fields.read_id(row, place), *fields.read_rest(row, place))
        return rows.table()

    def blocks() -> Iterator[pa.Array]:
        lines, together = list[bytes](), 0
        for line in read_contents(file):
            lines.append(line)
            together += len(line)
            if is_end(line, len(line), together):
                yield pa.array(lines, pa.binary())
                lines, together = [], 0
        if lines:
            yield pa.array(lines, pa.binary())

    # Which fields are read follows from the first line, whatever block a line is in.
    firsts = ((parse_object(first)[1], first[0]) for first in read_raw_lines(file))
    seed = next((str(fields_of(*first)) for first in firsts), "")
    named = ((records_digest(each, seed), partial(pa.table, {"line": each})) for each in blocks())
    built.add(named, parsed)
