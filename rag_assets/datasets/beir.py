"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<subset>.tsv``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from rag_assets.datasets.dataset import Read
from rag_assets.datasets.fields import Place, identifier, metadata_json, optional_string, string
from rag_assets.datasets.folder import document_paths
from rag_assets.datasets.ids import UniqueIds
from rag_assets.datasets.jsonl import read_objects
from rag_assets.datasets.notes import note
from rag_assets.datasets.problems import tolerated
from rag_assets.datasets.qrels_tsv import DOCUMENT_KEY, QUERY_KEY, read_scored_pairs
from rag_assets.datasets.rows import DocumentRows, QrelRows, QueryRows
from rag_assets.errors import DataError, UsageError, allowed_names

CORPUS = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"
QRELS_FOLDER = "qrels"
DEFAULT_SUBSET = "test"

_DOCUMENT_KEYS = frozenset({"_id", "title", "text"})
_QUERY_KEYS = frozenset({"_id", "text"})


@dataclass(frozen=True)
class BeirDataset:
    """One subset of a BEIR folder.

    A document's fields beside ``_id``, ``title`` and ``text`` are its metadata; a query's tags are
    ``metadata.tags`` where that is a list of strings. A judgment is an evidence of its own.
    """

    format: ClassVar[str] = "beir"
    layout: ClassVar[str] = f"a folder with {CORPUS}, {QUERIES_FILE} and {QRELS_FOLDER}/"
    default_judge: ClassVar[str] = "document"
    default_chunking: ClassVar[str] = "none"

    root: Path
    subset: str

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the folder has all three parts."""
        return not _missing_parts(path)

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return a subset: by default ``test``, or the only one there; without any, no labels.

        Raises:
            DataError: a part of the folder is missing, or no subset can be chosen.
            UsageError: there is no subset of this name.
        """
        missing = _missing_parts(path)
        if missing and missing != [f"{QRELS_FOLDER}/"]:
            raise DataError(f"not a BEIR folder: {', '.join(missing)} missing", file=path)
        return cls(path, _chosen(_subsets(path), subset, path))

    @property
    def has_qrels(self) -> bool:
        """Whether the subset has its file; a folder without any has no labels yet."""
        return self.qrels_files()[0].is_file()

    def document_files(self) -> list[Path]:
        """Return the corpus."""
        return [self.root / CORPUS]

    def query_files(self) -> list[Path]:
        """Return the queries and, where there are several subsets, what divides them."""
        subsets = _subsets(self.root)
        dividing = list(subsets.values()) if len(subsets) > 1 else []
        return [self.root / QUERIES_FILE, *dividing]

    def qrels_files(self) -> list[Path]:
        """Return the file of the subset."""
        return [self.root / QRELS_FOLDER / f"{self.subset}.tsv"]

    def read_documents(self) -> Read:
        """Return the corpus; a note counts Markdown and text files that are not part of it."""
        file = self.root / CORPUS
        rows, ids = DocumentRows(), UniqueIds("document", "_id")
        for line, row in read_objects(file):
            place = Place(file, line)
            with tolerated():
                document_id = identifier(row, "_id", place)
                ids.add(document_id, place)
                text = string(row, "text", place)
                title = optional_string(row, "title", place) or ""
                rows.add(document_id, title, text, metadata_json(row, _DOCUMENT_KEYS))
        stray = [f.relative_to(self.root).as_posix() for f in document_paths(self.root).files]
        about = ("file beside the BEIR files is", "files beside the BEIR files are")
        return rows.read(Place(file), note(f"{about[0]} not read", f"{about[1]} not read", stray))

    def read_queries(self) -> Read:
        """Return the queries of the subset.

        A query that other subsets alone hold relevant documents for belongs to them; such queries
        are left out and counted in a note. One without any relevant document is kept.
        """
        file = self.root / QUERIES_FILE
        elsewhere = self._relevant_elsewhere()
        rows, ids, left_out = QueryRows(), UniqueIds("query", "_id"), list[str]()
        for line, row in read_objects(file):
            place = Place(file, line)
            with tolerated():
                query_id = identifier(row, "_id", place)
                ids.add(query_id, place)
                text = string(row, "text", place)
                if query_id in elsewhere:
                    left_out.append(query_id)
                else:
                    tags, rest = _split_tags(row)
                    rows.add(query_id, text, tags, metadata_json(rest, _QUERY_KEYS))
        one = f"query that is not of subset {self.subset} is left out"
        many = f"queries that are not of subset {self.subset} are left out"
        return rows.read(Place(file), note(one, many, left_out))

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the judgments of the subset, negative and zero grades included."""
        file = self.qrels_files()[0]
        rows = QrelRows(documents, queries)
        for pair in read_scored_pairs(file):
            keys = (QUERY_KEY, DOCUMENT_KEY)
            with tolerated():
                rows.resolve(pair.query_id, pair.document_id, pair.place, keys)
                rows.add(pair.place, pair.query_id, pair.document_id, pair.grade)
        return rows.read(Place(file), [])

    def _relevant_elsewhere(self) -> set[str]:
        subsets = _subsets(self.root)
        others = [file for name, file in subsets.items() if name != self.subset]
        if not others:
            return set()
        here = {pair.query_id for pair in read_scored_pairs(self.qrels_files()[0])}
        return _relevant_queries(others) - here


def _relevant_queries(files: Iterable[Path]) -> set[str]:
    return {pair.query_id for file in files for pair in read_scored_pairs(file) if pair.grade > 0}


def _split_tags(row: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    metadata = row.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return [], row
    rest = {key: value for key, value in metadata.items() if key != "tags"} if metadata else {}
    return list(dict.fromkeys(tags)), {**row, "metadata": rest}


def _missing_parts(path: Path) -> list[str]:
    missing = [name for name in (CORPUS, QUERIES_FILE) if not (path / name).is_file()]
    return missing if (path / QRELS_FOLDER).is_dir() else [*missing, f"{QRELS_FOLDER}/"]


def _subsets(path: Path) -> dict[str, Path]:
    files = sorted((path / QRELS_FOLDER).glob("*.tsv"))
    return {f.stem: f for f in files if f.is_file() and not f.name.startswith(".")}


def _chosen(subsets: dict[str, Path], wanted: str | None, path: Path) -> str:
    if wanted is not None:
        if wanted not in subsets:
            raise UsageError(f"{path / QRELS_FOLDER}: no subset {allowed_names(wanted, subsets)}")
        return wanted
    if DEFAULT_SUBSET in subsets or not subsets:
        return DEFAULT_SUBSET
    if len(subsets) > 1:
        names = ", ".join(subsets)
        raise DataError(
            f"has no {DEFAULT_SUBSET}.tsv; choose a subset: {names}", file=path / QRELS_FOLDER
        )
    return next(iter(subsets))
