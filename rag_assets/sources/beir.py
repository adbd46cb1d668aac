"""BEIR datasets: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<subset>.tsv``, and kin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.beir_files import (
    DOCUMENT_KEY,
    QUERY_KEY,
    Parts,
    ScoredPair,
    Split,
    beir_parts,
    files_of,
    read_scored_pairs,
)
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    DocumentFields,
    Place,
    Row,
    identifier,
    metadata_json,
    note,
    string,
)
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.row_files import JsonLinesFile, Rows, row_file
from rag_assets.sources.rows import DocumentRows, Parse, QrelRows, QueryRows, Record, read_in_blocks
from rag_assets.sources.strict_json import parse_object
from rag_assets.store.blocks import KnownBlocks

CORPUS = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"
QRELS_FOLDER = "qrels"
DEFAULT_SUBSET = "test"

_ID_KEYS = ("_id", "id")
_FIELDS = {key: DocumentFields((key,)) for key in _ID_KEYS}


@dataclass(frozen=True)
class BeirDataset:
    """One subset of a BEIR folder, of text or of Parquet as at Hugging Face.

    See :mod:`rag_assets.sources.beir_files` for what may lie where. A document's fields beside
    ``_id`` (or ``id``), ``title`` and ``text`` are its metadata; a query's tags are
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
    def has_qrels(self) -> bool:
        """Whether the subset has its file; a folder without any has no labels yet."""
        return self.subset in self._parts.qrels

    @property
    def _parts(self) -> Parts:
        return beir_parts(self.root)

    def document_files(self) -> list[Path]:
        """Return the files of the corpus."""
        return files_of(self._parts.corpus, self.subset)

    def query_files(self) -> list[Path]:
        """Return the queries and, where there are several subsets, what divides them."""
        parts = self._parts
        dividing = [file for files in parts.qrels.values() for file in files]
        queries = files_of(parts.queries, self.subset)
        return [*queries, *(dividing if len(parts.qrels) > 1 else [])]

    def qrels_files(self) -> list[Path]:
        """Return the files of the subset; where it has none, the file that would hold it."""
        none = [self.root / QRELS_FOLDER / f"{self.subset}.tsv"]
        return self._parts.qrels.get(self.subset, none)

    def read_document_blocks(self, known: KnownBlocks) -> Read | None:
        """Return the corpus where it stands in lines."""
        source = _Rows(files_of(self._parts.corpus, self.subset))
        return read_in_blocks(known, source.raw_rows(), _parser) if source.has_lines else None

    def read_documents(self) -> Read:
        """Return the corpus."""
        source = _Rows(files_of(self._parts.corpus, self.subset))
        rows, ids = DocumentRows(), UniqueIds("document")
        for place, row in source.rows():
            with skipping_bad_rows():
                document = _FIELDS[_id_key(row)].read(row, place)
                ids.add(document[0], place, _ID_KEYS[0])
                rows.add(*document)
        return rows.read(source.place, source.notes())

    def read_queries(self) -> Read:
        """Return the queries of the subset.

        A query that other subsets alone hold relevant documents for belongs to them; such queries
        are left out and counted in a note. One without any relevant document is kept.
        """
        source = _Rows(files_of(self._parts.queries, self.subset))
        elsewhere = self._relevant_elsewhere()
        rows, ids, left_out = QueryRows(), UniqueIds("query"), list[str]()
        for place, row in source.rows():
            with skipping_bad_rows():
                key = _id_key(row)
                query_id = identifier(row, key, place)
                ids.add(query_id, place, _ID_KEYS[0])
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
        files = self.qrels_files()
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


def _parser(_: Record) -> tuple[str, Parse]:
    def parse(block: Sequence[Record]) -> pa.Table:
        rows = DocumentRows()
        for place, content in block:
            row = parse_object(content, place.file, place.line)
            rows.add(*_FIELDS[_id_key(row)].read(row, place))
        return rows.table()

    return "beir", parse


class _Rows:
    """The rows of JSON lines or Parquet, file after file."""

    def __init__(self, files: list[Path]) -> None:
        self._sources = [row_file(file) for file in files]
        self.place = Place(files[0])

    def rows(self) -> Rows:
        return chain.from_iterable(source.rows() for source in self._sources)

    @property
    def has_lines(self) -> bool:
        return all(isinstance(source, JsonLinesFile) for source in self._sources)

    def raw_rows(self) -> Iterator[Record]:
        return chain.from_iterable(
            JsonLinesFile(source.file).raw_rows() for source in self._sources
        )

    def notes(self) -> list[str]:
        return list(dict.fromkeys(line for source in self._sources for line in source.notes()))


def _id_key(row: Row) -> str:
    return next((key for key in _ID_KEYS if key in row), _ID_KEYS[0])


def _pairs(files: Iterable[Path]) -> Iterator[ScoredPair]:
    return chain.from_iterable(map(read_scored_pairs, files))


def _split_tags(row: Row) -> tuple[list[str], Row]:
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
