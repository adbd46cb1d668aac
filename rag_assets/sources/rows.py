"""The three tables in the making: what all formats check alike.

They are built batch by batch, so that a large corpus never exists as Python rows. Documents of
formats in which each stands in a record of its own are read in blocks: of a file in which little
changed, only that is parsed. Whatever is wrong in such a file is left to the reader of whole files,
which alone decides what is said first, and on which line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES, TableSchema
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Place, note, shown
from rag_assets.sources.ids import KnownIds
from rag_assets.sources.problems import DUPLICATE_JUDGMENT, EMPTY, error_context, was_rejected
from rag_assets.store.blocks import BlockedTable, KnownBlocks, in_blocks, records_digest

BATCH_ROWS = 16_384
BATCH_CHARACTERS = 8_000_000
QrelKey = tuple[str, str, str, int | None, int | None]
UNKNOWN_DOCUMENTS = "unknown_documents"

KEEP = "keep"
"""``dataset: {unknown_documents: keep}``: what to write so that such judgments are kept."""

WITHOUT_RELEVANT = "without a relevant document"
_KEEPS: ContextVar[bool] = ContextVar("keeps", default=False)


@contextmanager
def unknown_documents(*, keep: bool) -> Iterator[None]:
    """Let readers inside keep judgments of documents that are not in the corpus.

    Else such a judgment is an error. One that is kept stays in R and is never found, as in
    trec_eval.
    """
    token = _KEEPS.set(keep)
    try:
        yield
    finally:
        _KEEPS.reset(token)


class DocumentRows:
    """Documents in the making; the ids are unique already."""

    def __init__(self) -> None:
        """Start without documents."""
        self._rows = TableBuilder(DOCUMENTS)

    def add(self, document_id: str, title: str, text: str, metadata: str = "{}") -> None:
        """Add a document; one without title and text is kept and noted."""
        size = len(title) + len(text) + len(metadata)
        self._rows.add(document_id, title, text, metadata, characters=size)

    def table(self) -> pa.Table:
        """Return the documents."""
        return self._rows.table()

    def read(self, place: Place, notes: list[str]) -> Read:
        """Return the table, with ``notes`` before its own.

        Raises:
            DataError: there is no document.
        """
        table = self.table()
        if not table.num_rows:
            raise place.error("holds no document; at least one is needed", check=EMPTY)
        return Read(table, notes + empty_documents(table))


def empty_documents(documents: pa.Table) -> list[str]:
    """Return a note of the documents without title and text."""
    suspects = documents.select(["document_id", "title", "text"])
    for name in ("title", "text"):
        # Most have a character that no alphabet takes for white space; the others are looked at.
        has_letter = pc.match_substring_regex(suspects.column(name), "[!-~]")
        suspects = suspects.filter(pc.invert(has_letter))
    rows = zip(*(column.to_pylist() for column in suspects.columns), strict=True)
    empty = [name for name, title, text in rows if not title.strip() and not text.strip()]
    return note("empty document", "empty documents", empty)


class QueryRows:
    """Queries in the making; the ids are unique already."""

    def __init__(self) -> None:
        """Start without queries."""
        self._rows = TableBuilder(QUERIES)
        self._empty: list[str] = []

    def add(self, query_id: str, text: str, tags: list[str], metadata: str = "{}") -> None:
        """Add a query; an empty one is kept and noted: it finds nothing and counts 0."""
        self._rows.add(query_id, text, tags, metadata, characters=len(text) + len(metadata))
        if not text.strip():
            self._empty.append(query_id)

    def read(self, place: Place, notes: list[str]) -> Read:
        """Return the table, with ``notes`` before its own.

        Raises:
            DataError: there is no query.
        """
        table = self._rows.table()
        if not table.num_rows:
            raise place.error("holds no query; at least one is needed", check=EMPTY)
        return Read(table, notes + note("empty query", "empty queries", self._empty))


class QrelRows:
    """Qrels in the making: known queries and documents, no judgment twice."""

    def __init__(self, documents: pa.Table, queries: pa.Table) -> None:
        """Judge these documents for these queries."""
        self._queries = KnownIds("query", queries.column("query_id"))
        keep = f"`dataset: {{{UNKNOWN_DOCUMENTS}: {KEEP}}}` keeps such judgments"
        self._documents = KnownIds("document", documents.column("document_id"), keep)
        self._keeps = _KEEPS.get()
        self._kept: list[tuple[str, int]] = []
        self._query_ids = queries.column("query_id")
        self._rows = TableBuilder(QRELS)
        self._lines: dict[QrelKey, int | None] = {}
        self._answerable: set[str] = set()

    def resolve(
        self, query_id: str, document_id: str, place: Place, keys: tuple[str, str]
    ) -> int | None:
        """Return the document's row in the documents table; None: it has none, and is kept.

        ``keys`` are where the source has the query's and the document's id, for the error.

        Raises:
            DataError: the query or the document does not exist.
        """
        with error_context(query_id, document_id):
            self.resolve_query(query_id, place, keys[0])
            return self.resolve_document(query_id, document_id, place, keys[1])

    def resolve_query(self, query_id: str, place: Place, key: str) -> None:
        """Check that a query exists.

        Raises:
            DataError: it does not.
        """
        with error_context(query_id):
            self._queries.row(query_id, place, key)

    def resolve_document(
        self, query_id: str, document_id: str, place: Place, key: str
    ) -> int | None:
        """Return the row in the documents table of a document that is judged for a query.

        None: it has none, and such judgments are kept (:func:`unknown_documents`).

        Raises:
            DataError: the document does not exist.
        """
        unknown = document_id not in self._documents
        if self._keeps and unknown and not was_rejected("document", document_id):
            return None
        with error_context(query_id, document_id):
            return self._documents.row(document_id, place, key)

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

        Raises:
            DataError: the same evidence of the same query was judged at the same place before.
        """
        start, end = span if span is not None else (None, None)
        evidence = evidence_id or (document_id if span is None else f"{document_id}#{start}-{end}")
        key = (query_id, evidence, document_id, start, end)
        if key in self._lines:
            with error_context(query_id, document_id, evidence):
                raise self._twice(place, key)
        self._lines[key] = place.line
        self._rows.add(*key, grade)
        if document_id not in self._documents:
            self._kept.append((document_id, grade))
        if grade > 0:
            self._answerable.add(query_id)

    def read(self, file: Place, notes: list[str]) -> Read:
        """Return the table, with ``notes`` before its own.

        Raises:
            DataError: there is no judgment, or none of a document of the corpus.
        """
        table = self._rows.table()
        if not table.num_rows:
            raise file.error("holds no judgment; labels are required", check=EMPTY)
        if len(self._kept) == table.num_rows:
            named = shown(self._kept[0][0])
            raise file.error(f"names no document of the corpus; the first it names is {named}")
        without = [q for q in self._query_ids.to_pylist() if q not in self._answerable]
        notes = notes + self._kept_notes()
        one, many = f"query {WITHOUT_RELEVANT}", f"queries {WITHOUT_RELEVANT}"
        return Read(table, notes + note(one, many, without))

    def _kept_notes(self) -> list[str]:
        n, relevant = len(self._kept), sum(grade > 0 for _, grade in self._kept)
        rest = f"; judgments of such are kept: {n}, of which relevant: {relevant}"
        one, many = "judged document is not in the corpus", "judged documents are not in the corpus"
        named = list(dict.fromkeys(document_id for document_id, _ in self._kept))
        return note(f"{one}{rest}", f"{many}{rest}", named)

    def _twice(self, place: Place, key: QrelKey) -> DataError:
        query_id, _, document_id, start, end = key
        span = f", characters {start}-{end}" if start is not None else ""
        first = f", first on line {self._lines[key]}" if self._lines[key] is not None else ""
        return place.error(
            f"query {shown(query_id)} and document {shown(document_id)}{span} are judged twice"
            f"{first}",
            check=DUPLICATE_JUDGMENT,
        )


class TableBuilder:
    """Collects rows and turns them into Arrow whenever a batch is full."""

    def __init__(self, schema: TableSchema) -> None:
        """Build a table of ``schema``."""
        self._schema = schema
        self._arrow = schema.arrow()
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[tuple[object, ...]] = []
        self._characters = 0

    def add(self, *values: object, characters: int = 0) -> None:
        """Add a row, its values in declared order; ``characters`` says how large it is."""
        self._rows.append(values)
        self._characters += characters
        if len(self._rows) >= BATCH_ROWS or self._characters >= BATCH_CHARACTERS:
            self._flush()

    def table(self) -> pa.Table:
        """Return the checked table of all rows."""
        self._flush()
        return self._schema.check(pa.Table.from_batches(self._batches, schema=self._arrow))

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


Record = tuple[Place, bytes]
Parse = Callable[[Sequence[Record]], pa.Table]
"""Parses the records of a block."""


def read_in_blocks(
    known: KnownBlocks,
    records: Iterable[Record],
    parser: Callable[[Record], tuple[str, Parse]],
) -> Read | None:
    """Return the documents of some records; only blocks that are not known are parsed.

    Args:
        known: blocks of earlier tables.
        records: in their order, each with its place.
        parser: gives, for the first record, what parses the records of a block into a table of
            :data:`rag_assets.schemas.DOCUMENTS`, and all that this depends on besides them.

    Returns:
        None where there is no document, or anything is wrong: the file is then to be read as a
        whole.
    """
    built, made = BlockedTable(known), None
    try:
        for block in in_blocks(records):
            seed, parse = made = made or parser(block[0])
            built.add(records_digest([raw for _, raw in block], seed), partial(parse, block))
    except DataError:
        return None
    if not built.blocks:
        return None
    table = built.table()
    if pc.count_distinct(table.column("document_id")).as_py() < table.num_rows:
        return None
    return Read(table, empty_documents(table), built.blocks)
