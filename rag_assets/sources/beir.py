"""BEIR datasets: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<subset>.tsv``, and kin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.beir_files import (
    DOCUMENT_KEY,
    PARQUET,
    QUERY_KEY,
    Parts,
    ScoredPair,
    Split,
    beir_parts,
    files_of,
    read_scored_pairs,
)
from rag_assets.sources.dataset import Read
from rag_assets.sources.document_blocks import Parse, read_in_blocks
from rag_assets.sources.document_folder import document_paths
from rag_assets.sources.fields import (
    Place,
    identifier,
    metadata_json,
    note,
    optional_string,
    string,
)
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.lines import read_raw_lines
from rag_assets.sources.parquet_rows import ParquetRows
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.rows import DocumentRows, QrelRows, QueryRows
from rag_assets.sources.strict_json import parsed_objects, read_objects
from rag_assets.text_files import suffix

CORPUS = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"
QRELS_FOLDER = "qrels"
DEFAULT_SUBSET = "test"

_ID_KEYS = ("_id", "id")


@dataclass(frozen=True)
class BeirDataset:
    """One subset of a BEIR dataset: a folder or ``.zip``, or the same as Parquet of Hugging Face.

    See :mod:`rag_assets.sources.beir_files` for what may lie where. A document's fields beside
    ``_id`` (or ``id``), ``title`` and ``text`` are its metadata; a query's tags are
    ``metadata.tags`` where that is a list of strings. A judgment is an evidence of its own.
    """

    format: ClassVar[str] = "beir"
    layout: ClassVar[str] = f"a folder or .zip with {CORPUS}, {QUERIES_FILE} and {QRELS_FOLDER}/"
    default_judge: ClassVar[str] = "document"
    default_chunking: ClassVar[str] = "none"

    place: Path
    subset: str

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the folder or archive has all three parts."""
        return not beir_parts(path).missing

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return the three parts, and which are there."""
        missing = beir_parts(path).missing
        return {name: name not in missing for name in (CORPUS, QUERIES_FILE, f"{QRELS_FOLDER}/")}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return a subset: by default ``test``, or the only one there; without any, no labels.

        Raises:
            DataError: a part of the folder is missing, or no subset can be chosen.
            UsageError: there is no subset of this name.
        """
        parts = beir_parts(path)
        if parts.missing and parts.missing != [f"{QRELS_FOLDER}/"]:
            raise DataError(f"not a BEIR folder: {', '.join(parts.missing)} missing", file=path)
        return cls(path, _chosen(parts.qrels, subset, path))

    @property
    def root(self) -> Path:
        """The folder, or the folder of the archive."""
        return self.place if self.place.is_dir() else self.place.parent

    @property
    def has_qrels(self) -> bool:
        """Whether the subset has its file; a folder without any has no labels yet."""
        return self.subset in self._parts.qrels

    @property
    def _parts(self) -> Parts:
        return beir_parts(self.place)

    def document_files(self) -> list[Path]:
        """Return the files of the corpus."""
        return self._on_disk(files_of(self._parts.corpus, self.subset))

    def query_files(self) -> list[Path]:
        """Return the queries and, where there are several subsets, what divides them."""
        parts = self._parts
        dividing = [file for files in parts.qrels.values() for file in files]
        queries = files_of(parts.queries, self.subset)
        return self._on_disk([*queries, *(dividing if len(parts.qrels) > 1 else [])])

    def qrels_files(self) -> list[Path]:
        """Return the files of the subset; where it has none, the file that would hold it."""
        none = [self.place / QRELS_FOLDER / f"{self.subset}.tsv"]
        return self._on_disk(self._parts.qrels.get(self.subset, none))

    def _on_disk(self, files: list[Path]) -> list[Path]:
        return files if self.place.is_dir() else [self.place]

    def read_documents(self) -> Read:
        """Return the corpus; a note counts Markdown and text files that are not part of it."""
        source = _Rows(files_of(self._parts.corpus, self.subset))
        read = read_in_blocks(source.raw, _parser, self._stray) if source.has_lines else None
        if read is not None:
            return read
        rows, ids = DocumentRows(), UniqueIds("document", _ID_KEYS[0])
        for place, row in source.read():
            with skipping_bad_rows():
                ids.add(identifier(row, _id_key(row), place), place)
                _add(rows, row, place)
        return rows.read(source.place, [*source.notes(), *self._stray()])

    def _stray(self) -> list[str]:
        if not self.place.is_dir():
            return []
        stray = [f.relative_to(self.root).as_posix() for f in document_paths(self.root).files]
        one, many = "file beside the BEIR files is not", "files beside the BEIR files are not"
        return note(f"{one} read", f"{many} read", stray)

    def read_queries(self) -> Read:
        """Return the queries of the subset.

        A query that other subsets alone hold relevant documents for belongs to them; such queries
        are left out and counted in a note. One without any relevant document is kept.
        """
        source = _Rows(files_of(self._parts.queries, self.subset))
        elsewhere = self._relevant_elsewhere()
        rows, ids, left_out = QueryRows(), UniqueIds("query", _ID_KEYS[0]), list[str]()
        for place, row in source.read():
            with skipping_bad_rows():
                key = _id_key(row)
                query_id = identifier(row, key, place)
                ids.add(query_id, place)
                text = string(row, "text", place)
                if query_id in elsewhere:
                    left_out.append(query_id)
                else:
                    tags, rest = _split_tags(row)
                    rows.add(query_id, text, tags, metadata_json(rest, frozenset({key, "text"})))
        singular = f"query that is not of subset {self.subset} is left out"
        many = f"queries that are not of subset {self.subset} are left out"
        return rows.read(source.place, [*source.notes(), *note(singular, many, left_out)])

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the judgments of the subset, negative and zero grades included."""
        files = self._parts.qrels.get(self.subset) or self.qrels_files()
        rows = QrelRows(documents, queries)
        for pair in _pairs(files):
            keys = (QUERY_KEY, DOCUMENT_KEY)
            with skipping_bad_rows():
                rows.resolve(pair.query_id, pair.document_id, pair.place, keys)
                rows.add(pair.place, pair.query_id, pair.document_id, pair.grade)
        return rows.read(Place(files[0]), [])

    def _relevant_elsewhere(self) -> set[str]:
        qrels = self._parts.qrels
        others = [file for name, files in qrels.items() if name != self.subset for file in files]
        if not others:
            return set()
        here = {pair.query_id for pair in _pairs(qrels[self.subset])}
        return {pair.query_id for pair in _pairs(others) if pair.grade > 0} - here


def _parser(_: tuple[Place, bytes]) -> tuple[str, Parse[Place]]:
    def parse(block: Sequence[tuple[Place, bytes]]) -> pa.Table:
        rows = DocumentRows()
        for place, content in block:
            for _, row in parsed_objects(place.file, [(place.line or 0, content)]):
                _add(rows, row, place)
        return rows.table()

    return "beir", parse


def _add(rows: DocumentRows, row: dict[str, Any], place: Place) -> None:
    key = _id_key(row)
    document_id = identifier(row, key, place)
    text = string(row, "text", place)
    title = optional_string(row, "title", place) or ""
    rows.add(document_id, title, text, metadata_json(row, frozenset({key, "title", "text"})))


class _Rows:
    """The rows of JSON lines or Parquet, file after file."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._parquet = [ParquetRows(file) for file in files if suffix(file) == PARQUET]
        self.place = Place(files[0])

    def read(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        for source in self._parquet:
            for number, row in source.read():
                yield Place(source.file, number), row
        for file in self._files:
            if suffix(file) != PARQUET:
                for number, row in read_objects(file):
                    yield Place(file, number), row

    @property
    def has_lines(self) -> bool:
        return not self._parquet

    def raw(self) -> Iterator[tuple[Place, bytes]]:
        for file in self._files:
            for number, content in read_raw_lines(file):
                yield Place(file, number), content

    def notes(self) -> list[str]:
        return list(dict.fromkeys(line for source in self._parquet for line in source.notes()))


def _id_key(row: dict[str, Any]) -> str:
    return next((key for key in _ID_KEYS if key in row), _ID_KEYS[0])


def _pairs(files: Iterable[Path]) -> Iterator[ScoredPair]:
    for file in files:
        yield from read_scored_pairs(file)


def _split_tags(row: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    metadata = row.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return [], row
    rest = {key: value for key, value in metadata.items() if key != "tags"} if metadata else {}
    return list(dict.fromkeys(tags)), {**row, "metadata": rest}


def _chosen(subsets: Split, name: str | None, path: Path) -> str:
    if name is not None:
        if name not in subsets:
            raise UsageError(f"{path / QRELS_FOLDER}: no subset {allowed_names(name, subsets)}")
        return name
    if DEFAULT_SUBSET in subsets or not subsets:
        return DEFAULT_SUBSET
    if len(subsets) > 1:
        names = ", ".join(subsets)
        raise DataError(
            f"has no {DEFAULT_SUBSET}.tsv; choose a subset: {names}", file=path / QRELS_FOLDER
        )
    return next(iter(subsets))
