"""Folders of Markdown and text files, with ``queries.jsonl`` and ``judgments.jsonl``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from rag_assets.datasets.dataset import Read
from rag_assets.datasets.fields import (
    Place,
    checked_id,
    identifier,
    metadata_json,
    optional_tags,
    string,
)
from rag_assets.datasets.folder import document_paths, has_documents
from rag_assets.datasets.ids import UniqueIds
from rag_assets.datasets.jsonl import read_objects
from rag_assets.datasets.judgments import has_quotes, read_judgments
from rag_assets.datasets.markdown_document import read_markdown
from rag_assets.datasets.notes import note
from rag_assets.datasets.rows import DocumentRows, QueryRows
from rag_assets.errors import DataError, UsageError

QUERIES_FILE = "queries.jsonl"
JUDGMENTS_FILE = "judgments.jsonl"

_QUERY_KEYS = frozenset({"query_id", "text", "tags"})


@dataclass(frozen=True)
class MarkdownDataset:
    """The documents below a folder; a document's id is its path, as ``guides/fares.md``.

    Lines of ``queries.jsonl``: ``query_id``, ``text``, and if wanted ``tags``; other keys are
    metadata. Lines of ``judgments.jsonl``: ``query_id``, ``doc_id``, and if wanted ``quote``,
    ``relevance`` and ``evidence_id``.
    """

    format: ClassVar[str] = "markdown"
    layout: ClassVar[str] = "a folder with .md, .markdown or .txt files"
    default_chunking: ClassVar[str] = "recursive"

    root: Path

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether there is a document anywhere below the folder."""
        return path.is_dir() and has_documents(path)

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the folder.

        Raises:
            DataError: it is not a folder.
            UsageError: a subset is asked for; only BEIR folders have some.
        """
        if subset is not None:
            raise UsageError(f"{path}: subset '{subset}': a markdown folder has no subsets")
        if not path.is_dir():
            raise DataError(f"not {cls.layout}", file=path)
        return cls(path)

    @property
    def default_judge(self) -> str:
        """``evidence`` when a judgment quotes its document, else ``document``."""
        return "evidence" if has_quotes(self.qrels_files()[0]) else "document"

    def document_files(self) -> list[Path]:
        """Return the documents, sorted by path."""
        return document_paths(self.root).files

    def query_files(self) -> list[Path]:
        """Return ``queries.jsonl``.

        Raises:
            DataError: there is none.
        """
        return [_needed(self.root / QUERIES_FILE)]

    def qrels_files(self) -> list[Path]:
        """Return ``judgments.jsonl``.

        Raises:
            DataError: there is none.
        """
        return [_needed(self.root / JUDGMENTS_FILE)]

    def read_documents(self) -> Read:
        """Return the documents; notes name links that were not followed."""
        found = document_paths(self.root)
        rows = DocumentRows()
        for file in found.files:
            name = file.relative_to(self.root).as_posix()
            rows.add(_document_id(name, self.root), *read_markdown(file))
        notes = note(
            "file at the top is no document", "files at the top are no documents", found.readme
        )
        links = ("link that leads to no file inside is", "links that lead to no file inside are")
        notes += note(f"{links[0]} not followed", f"{links[1]} not followed", found.links)
        return rows.read(Place(self.root), notes)

    def read_queries(self) -> Read:
        """Return the queries."""
        file = self.query_files()[0]
        rows, ids = QueryRows(), UniqueIds("query", "query_id")
        for line, row in read_objects(file):
            place = Place(file, line)
            query_id = identifier(row, "query_id", place)
            ids.add(query_id, place)
            tags = optional_tags(row, "tags", place)
            rows.add(query_id, string(row, "text", place), tags, metadata_json(row, _QUERY_KEYS))
        return rows.read(Place(file), [])

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the judgments, quotes as spans in characters of the text."""
        return read_judgments(self.qrels_files()[0], documents, queries)


def _document_id(name: str, root: Path) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        problem = f"holds a file whose name is not UTF-8: {name!a}"
        raise DataError(problem, file=root) from error
    return checked_id(name, Place(root), "document_id")


def _needed(file: Path) -> Path:
    if not file.is_file():
        raise DataError(
            f"no such file; besides its documents the folder needs {QUERIES_FILE} and "
            f"{JUDGMENTS_FILE} (labels are required in this version)",
            file=file,
        )
    return file
