"""Folders with all documents in one file of JSON lines, CSV or Parquet, one row a document.

Queries and judgments lie beside it: see :mod:`rag_assets.sources.folder_labels`. Documents are read
in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import DocumentFields, Place, Row, joined_id
from rag_assets.sources.folder_labels import Columns, LabelledFolder
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.row_files import (
    CsvFile,
    JsonLinesFile,
    ParquetFile,
    RawRowFile,
    RowFile,
)
from rag_assets.sources.rows import DocumentRows, Parse, Record, read_in_blocks
from rag_assets.store.blocks import KnownBlocks
from rag_assets.text_files import existing

JSONL_DOCUMENTS = "documents.jsonl"
_CORPUS = "corpus.jsonl"
CSV_DOCUMENTS = "documents.csv"
PARQUET_DOCUMENTS = "documents.parquet"


@dataclass(frozen=True)
class _RecordFolder(LabelledFolder):
    """All documents in the file ``documents``.

    Id, title and text stand under the names of :data:`folder_labels.NAMES`, or those of the
    mapping; all other fields are metadata.
    """

    reader: ClassVar[type[RowFile]]

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the file of documents is there."""
        return cls._file(path) is not None

    @classmethod
    def _file(cls, folder: Path) -> Path | None:
        return existing(folder / cls.documents)

    def document_files(self) -> list[Path]:
        """Return the file of documents."""
        return [self._file(self.root) or self.root / self.documents]

    def read_documents(self) -> Read:
        """Return the documents.

        Raises:
            DataError: a row breaks the contract, an id occurs twice, or there is no document.
        """
        return _whole(self.reader(self.document_files()[0]), self.columns)

    def read_document_blocks(self, known: KnownBlocks) -> Read | None:
        """Return the documents where the format has a record for each."""
        source = self.reader(self.document_files()[0])
        return _in_blocks(known, source, self.columns) if isinstance(source, RawRowFile) else None


@dataclass(frozen=True)
class JsonlDataset(_RecordFolder):
    """``documents.jsonl``, one object a document; ``corpus.jsonl`` is taken as well."""

    format: ClassVar[str] = "jsonl"
    layout: ClassVar[str] = f"a folder with {JSONL_DOCUMENTS}, or {_CORPUS} and no qrels/"
    documents: ClassVar[str] = JSONL_DOCUMENTS
    reader: ClassVar[type[RowFile]] = JsonLinesFile

    @classmethod
    def _file(cls, folder: Path) -> Path | None:
        file = existing(folder / JSONL_DOCUMENTS)
        return file or (None if (folder / "qrels").is_dir() else existing(folder / _CORPUS))


@dataclass(frozen=True)
class CsvDataset(_RecordFolder):
    """``documents.csv``, one row a document, below a header; every field is text."""

    format: ClassVar[str] = "csv"
    layout: ClassVar[str] = f"a folder with {CSV_DOCUMENTS}"
    documents: ClassVar[str] = CSV_DOCUMENTS
    reader: ClassVar[type[RowFile]] = CsvFile


@dataclass(frozen=True)
class ParquetDataset(_RecordFolder):
    """``documents.parquet``, one row a document; notes tell what JSON metadata cannot hold."""

    format: ClassVar[str] = "parquet"
    layout: ClassVar[str] = f"a folder with {PARQUET_DOCUMENTS}"
    documents: ClassVar[str] = PARQUET_DOCUMENTS
    reader: ClassVar[type[RowFile]] = ParquetFile

    @classmethod
    def _file(cls, folder: Path) -> Path | None:
        file = folder / PARQUET_DOCUMENTS  # never compressed as text may be
        return file if file.is_file() else None


def _whole(source: RowFile, columns: Columns) -> Read:
    rows = DocumentRows()
    names = _add(rows, source.rows(), columns)
    read = rows.read(Place(source.file), list(source.notes()))
    ids = read.table.column("document_id")
    if names is None or pc.count_distinct(ids).as_py() == len(ids):
        return read
    _refuse_repeated(source, names.document_id)
    return Read(_first_of_each(read.table), read.notes)


def _in_blocks(known: KnownBlocks, source: RawRowFile, columns: Columns) -> Read | None:
    def parser(first: Record) -> tuple[str, Parse]:
        place, row = next(iter(source.parsed([first])))
        names = _names(columns, row, place)

        def parse(block: Iterable[Record]) -> pa.Table:
            rows = DocumentRows()
            _add(rows, source.parsed(block), columns, names)
            return rows.table()

        return str(names), parse

    return read_in_blocks(known, source.raw_rows(), parser)


def _add(
    rows: DocumentRows,
    records: Iterable[tuple[Place, Row]],
    columns: Columns,
    names: DocumentFields | None = None,
) -> DocumentFields | None:
    """Add all records; without ``names`` the first says which fields are what."""
    for place, row in records:
        names = names or _names(columns, row, place)
        with skipping_bad_rows():
            rows.add(*names.read(row, place))
    return names


def _names(columns: Columns, row: Row, place: Place) -> DocumentFields:
    present = list(row)
    document_id = columns.document_id(present, place)
    return DocumentFields(
        document_id, *(columns.name(name, present, place) for name in ("title", "text"))
    )


def _refuse_repeated(source: RowFile, keys: tuple[str, ...]) -> None:
    """Name the lines of an id that occurs twice, by reading again.

    That there is one is found by Arrow, which needs a fraction of the memory of a dictionary of
    lines.
    """
    key = ", ".join(keys)
    unique, n_rows = UniqueIds("document"), 0
    for place, row in source.rows():
        with skipping_bad_rows():
            document_id = joined_id(row, keys, place)
            n_rows += 1
            unique.add(document_id, place, key)
    if len(unique) == n_rows:
        problem = "an id occurs twice; the file changed while it was read"
        raise Place(source.file).error(problem, key)


def _first_of_each(documents: pa.Table) -> pa.Table:
    """Return the documents without the later ones of an id, for callers that collect problems."""
    seen: set[str] = set()
    keep = []
    for document_id in documents.column("document_id").to_pylist():
        keep.append(document_id not in seen)
        seen.add(document_id)
    return documents.filter(pa.array(keep))
