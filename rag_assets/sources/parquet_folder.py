"""Folders with all documents in ``documents.parquet``, with their queries and judgments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rag_assets.sources.dataset import Read
from rag_assets.sources.document_records import read_documents
from rag_assets.sources.folder import beside
from rag_assets.sources.folder_labels import LabelledFolder
from rag_assets.sources.parquet_rows import ParquetRows

DOCUMENTS = "documents.parquet"


@dataclass(frozen=True)
class ParquetDataset(LabelledFolder):
    """``documents.parquet``, one row a document; errors count rows where others count lines.

    Id, title and text stand in the columns of :data:`columns.NAMES`, or those of the mapping; all
    other columns are metadata.
    """

    format: ClassVar[str] = "parquet"
    layout: ClassVar[str] = f"a folder with {DOCUMENTS}"
    documents: ClassVar[str] = DOCUMENTS

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the file of documents is there."""
        return (path / DOCUMENTS).is_file()

    def document_files(self) -> list[Path]:
        """Return the file of documents."""
        return [self.root / DOCUMENTS]

    def read_documents(self) -> Read:
        """Return the documents; notes tell what JSON metadata cannot hold."""
        file = self.document_files()[0]
        rows = ParquetRows(file)
        stray = beside(self.root, file)
        return read_documents(file, rows.read, self.columns, lambda: [*stray, *rows.notes()])
