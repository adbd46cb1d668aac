"""Folders with all documents in ``documents.csv``, with their queries and judgments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec

from rag_assets.sources.csv_rows import read_csv
from rag_assets.sources.dataset import Read
from rag_assets.sources.document_records import RawRecords, read_documents
from rag_assets.sources.folder import beside
from rag_assets.sources.folder_labels import LabelledFolder
from rag_assets.text_files import existing

DOCUMENTS = "documents.csv"


@dataclass(frozen=True)
class CsvDataset(LabelledFolder):
    """``documents.csv``, one row a document, below a header.

    Id, title and text stand in the columns of :data:`columns.NAMES`, or those of the mapping; all
    other columns are metadata, as text.
    """

    format: ClassVar[str] = "csv"
    layout: ClassVar[str] = f"a folder with {DOCUMENTS}"
    documents: ClassVar[str] = DOCUMENTS

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the file of documents is there."""
        return existing(path / DOCUMENTS) is not None

    def document_files(self) -> list[Path]:
        """Return the file of documents."""
        return [existing(self.root / DOCUMENTS) or self.root / DOCUMENTS]

    def read_documents(self) -> Read:
        """Return the documents; a note counts other documents in the folder."""
        file = self.document_files()[0]
        notes = beside(self.root, file)
        raw = RawRecords(partial(_encoded, file), _decoded)
        return read_documents(file, lambda: read_csv(file), self.columns, lambda: notes, raw)


def _encoded(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield every row as bytes; where a row ends, only a parser of all lines can tell."""
    for line, row in read_csv(file):
        yield line, msgspec.json.encode(row)


def _decoded(rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, dict[str, str]]]:
    for line, row in rows:
        yield line, msgspec.json.decode(row)
