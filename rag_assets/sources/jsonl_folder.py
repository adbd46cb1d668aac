"""Folders with all documents in one file of JSON lines, with their queries and judgments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from rag_assets.sources.dataset import Read
from rag_assets.sources.document_records import RawRecords, read_documents
from rag_assets.sources.folder import beside
from rag_assets.sources.folder_labels import LabelledFolder
from rag_assets.sources.jsonl import parsed_objects, read_objects
from rag_assets.sources.lines import read_raw_lines
from rag_assets.text_files import existing

DOCUMENTS = "documents.jsonl"
CORPUS = "corpus.jsonl"


@dataclass(frozen=True)
class JsonlDataset(LabelledFolder):
    """``documents.jsonl``, one object a document; ``corpus.jsonl`` is taken as well.

    Id, title and text stand under the names of :data:`columns.NAMES`, or those of the mapping; all
    other keys are metadata.
    """

    format: ClassVar[str] = "jsonl"
    layout: ClassVar[str] = f"a folder with {DOCUMENTS}, or {CORPUS} and no qrels/"
    documents: ClassVar[str] = DOCUMENTS

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the file of documents is there."""
        if existing(path / DOCUMENTS):
            return True
        return existing(path / CORPUS) is not None and not (path / "qrels").is_dir()

    def document_files(self) -> list[Path]:
        """Return the file of documents."""
        named = existing(self.root / DOCUMENTS) or existing(self.root / CORPUS)
        return [named or self.root / DOCUMENTS]

    def read_documents(self) -> Read:
        """Return the documents; a note counts other documents in the folder."""
        file = self.document_files()[0]
        notes = beside(self.root, file)
        raw = RawRecords(partial(read_raw_lines, file), partial(parsed_objects, file))
        return read_documents(file, lambda: read_objects(file), self.columns, lambda: notes, raw)
