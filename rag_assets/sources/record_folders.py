"""Folders with all documents in one file of JSON lines, CSV or Parquet, one row a document.

Queries and judgments lie beside it: see :mod:`rag_assets.sources.folder_labels`. Documents are read
in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.sources.csv_files import read_csv
from rag_assets.sources.dataset import Read
from rag_assets.sources.document_blocks import Parse, read_in_blocks
from rag_assets.sources.document_folder import beside
from rag_assets.sources.fields import (
    Place,
    Row,
    joined_id,
    metadata_json,
    optional_string,
    string,
)
from rag_assets.sources.folder_labels import Columns, LabelledFolder
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.lines import read_raw_lines
from rag_assets.sources.parquet_rows import ParquetRows
from rag_assets.sources.problems import record_id, skipping_bad_rows
from rag_assets.sources.rows import DocumentRows
from rag_assets.sources.strict_json import parsed_objects, read_objects
from rag_assets.text_files import existing

JSONL_DOCUMENTS = "documents.jsonl"
_CORPUS = "corpus.jsonl"
CSV_DOCUMENTS = "documents.csv"
PARQUET_DOCUMENTS = "documents.parquet"
_Records = Iterable[tuple[int, Row]]


@dataclass(frozen=True)
class JsonlDataset(LabelledFolder):
    """``documents.jsonl``, one object a document; ``corpus.jsonl`` is taken as well.

    Id, title and text stand under the names of :data:`folder_labels.NAMES`, or those of the
    mapping; all other keys are metadata.
    """

    format: ClassVar[str] = "jsonl"
    layout: ClassVar[str] = f"a folder with {JSONL_DOCUMENTS}, or {_CORPUS} and no qrels/"
    documents: ClassVar[str] = JSONL_DOCUMENTS

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the file of documents is there."""
        if existing(path / JSONL_DOCUMENTS):
            return True
        return existing(path / _CORPUS) is not None and not (path / "qrels").is_dir()

    def document_files(self) -> list[Path]:
        """Return the file of documents."""
        named = existing(self.root / JSONL_DOCUMENTS) or existing(self.root / _CORPUS)
        return [named or self.root / JSONL_DOCUMENTS]

    def read_documents(self) -> Read:
        """Return the documents; a note counts other documents in the folder."""
        file = self.document_files()[0]
        notes = beside(self.root, file)
        raw = _RawRecords(partial(read_raw_lines, file), partial(parsed_objects, file))
        return _read_documents(file, lambda: read_objects(file), self.columns, lambda: notes, raw)


@dataclass(frozen=True)
class CsvDataset(LabelledFolder):
    """``documents.csv``, one row a document, below a header.

    Id, title and text stand in the columns of :data:`folder_labels.NAMES`, or those of the
    mapping; all other columns are metadata, as text.
    """

    format: ClassVar[str] = "csv"
    layout: ClassVar[str] = f"a folder with {CSV_DOCUMENTS}"
    documents: ClassVar[str] = CSV_DOCUMENTS

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the file of documents is there."""
        return existing(path / CSV_DOCUMENTS) is not None

    def document_files(self) -> list[Path]:
        """Return the file of documents."""
        return [existing(self.root / CSV_DOCUMENTS) or self.root / CSV_DOCUMENTS]

    def read_documents(self) -> Read:
        """Return the documents; a note counts other documents in the folder."""
        file = self.document_files()[0]
        notes = beside(self.root, file)
        raw = _RawRecords(partial(_encoded, file), _decoded)
        return _read_documents(file, lambda: read_csv(file), self.columns, lambda: notes, raw)


def _encoded(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield every row as bytes; where a row ends, only a parser of all lines can tell."""
    for line, row in read_csv(file):
        yield line, msgspec.json.encode(row)


def _decoded(rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, dict[str, str]]]:
    for line, row in rows:
        yield line, msgspec.json.decode(row)


@dataclass(frozen=True)
class ParquetDataset(LabelledFolder):
    """``documents.parquet``, one row a document; errors count rows where others count lines.

    Id, title and text stand in the columns of :data:`folder_labels.NAMES`, or those of the
    mapping; all other columns are metadata.
    """

    format: ClassVar[str] = "parquet"
    layout: ClassVar[str] = f"a folder with {PARQUET_DOCUMENTS}"
    documents: ClassVar[str] = PARQUET_DOCUMENTS

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the file of documents is there."""
        return (path / PARQUET_DOCUMENTS).is_file()

    def document_files(self) -> list[Path]:
        """Return the file of documents."""
        return [self.root / PARQUET_DOCUMENTS]

    def read_documents(self) -> Read:
        """Return the documents; notes tell what JSON metadata cannot hold."""
        file = self.document_files()[0]
        rows = ParquetRows(file)
        stray = beside(self.root, file)
        return _read_documents(file, rows.read, self.columns, lambda: [*stray, *rows.notes()])


class _RawRecords(NamedTuple):
    """The rows as bytes, for files of which each row can be parsed without the others.

    Attributes:
        read: gives line and bytes of every row.
        parse: gives line and fields of such rows.
    """

    read: Callable[[], Iterable[tuple[int, bytes]]]
    parse: Callable[[Iterable[tuple[int, bytes]]], _Records]


class _Names(NamedTuple):
    document_id: tuple[str, ...]
    title: str
    text: str

    @property
    def used(self) -> frozenset[str]:
        """What is no metadata."""
        # What an id is made of stays metadata: the source of a document is a field of its own.
        one_id = self.document_id if len(self.document_id) == 1 else ()
        return frozenset((*one_id, self.title, self.text))


def _read_documents(
    file: Path,
    records: Callable[[], _Records],
    columns: Columns,
    notes: Callable[[], Sequence[str]] = tuple,
    raw: _RawRecords | None = None,
) -> Read:
    """Return the documents of a file.

    Args:
        file: where they come from, for errors.
        records: gives all rows, each with its line; called again only when an id occurs twice.
        columns: which fields hold id, title and text; all others become metadata.
        notes: what was odd about the rows, asked for after the last one.
        raw: the rows as bytes; with them the file can be read in blocks.

    Raises:
        DataError: a row breaks the contract, an id occurs twice, or there is no document.
    """
    read = _in_blocks(file, raw, columns, notes) if raw is not None else None
    return read or _whole(file, records, columns, notes)


def _whole(
    file: Path,
    records: Callable[[], _Records],
    columns: Columns,
    notes: Callable[[], Sequence[str]],
) -> Read:
    rows = DocumentRows()
    names = _add(rows, file, records(), columns)
    read = rows.read(Place(file), list(notes()))
    ids = read.table.column("document_id")
    if names is None or pc.count_distinct(ids).as_py() == len(ids):
        return read
    _refuse_repeated(file, records(), names.document_id)
    return Read(_first_of_each(read.table), read.notes)


def _in_blocks(
    file: Path, raw: _RawRecords, columns: Columns, notes: Callable[[], Sequence[str]]
) -> Read | None:
    def parser(first: tuple[int, bytes]) -> tuple[str, Parse[int]]:
        line, row = next(iter(raw.parse([first])))
        names = _names(columns, row, Place(file, line))

        def parse(block: Iterable[tuple[int, bytes]]) -> pa.Table:
            rows = DocumentRows()
            _add(rows, file, raw.parse(block), columns, names)
            return rows.table()

        return str(names), parse

    return read_in_blocks(raw.read, parser, notes)


def _add(
    rows: DocumentRows,
    file: Path,
    records: _Records,
    columns: Columns,
    names: _Names | None = None,
) -> _Names | None:
    """Add all records; without ``names`` the first says which fields are what."""
    used = names.used if names is not None else frozenset()
    for line, row in records:
        place = Place(file, line)
        if names is None:
            names = _names(columns, row, place)
            used = names.used
        with skipping_bad_rows():
            document_id = joined_id(row, names.document_id, place)
            record_id("document", document_id)
            title = optional_string(row, names.title, place) or ""
            text = string(row, names.text, place)
            rows.add(document_id, title, text, metadata_json(row, used))
    return names


def _names(columns: Columns, row: Row, place: Place) -> _Names:
    present = list(row)
    document_id = columns.document_id(present, place)
    return _Names(document_id, *(columns.name(name, present, place) for name in ("title", "text")))


def _refuse_repeated(file: Path, records: _Records, keys: tuple[str, ...]) -> None:
    """Name the lines of an id that occurs twice, by reading again.

    That there is one is found by Arrow, which needs a fraction of the memory of a dictionary of
    lines.
    """
    key = ", ".join(keys)
    unique, n_rows = UniqueIds("document", key), 0
    for line, row in records:
        place = Place(file, line)
        with skipping_bad_rows():
            document_id = joined_id(row, keys, place)
            n_rows += 1
            unique.add(document_id, place)
    if len(unique) == n_rows:
        raise Place(file).error("an id occurs twice; the file changed while it was read", key)


def _first_of_each(documents: pa.Table) -> pa.Table:
    """Return the documents without the later ones of an id, for callers that collect problems."""
    seen: set[str] = set()
    keep = []
    for document_id in documents.column("document_id").to_pylist():
        keep.append(document_id not in seen)
        seen.add(document_id)
    return documents.filter(pa.array(keep))
