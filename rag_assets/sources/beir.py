"""BEIR datasets: a corpus, queries, and qrels by subset, as text or as Parquet.

- The corpus: ``corpus.jsonl`` (``.gz`` too), ``corpus.parquet``, or shards in ``corpus/``.
- The queries, likewise.
- The qrels: ``qrels/<subset>.tsv``, ``.jsonl`` or ``.parquet``, or one file ``qrels`` of such a
  kind; beside Parquet also shards in ``data/``, where MTEB has them.

Shards are named as Hugging Face names them: ``test-00000-of-00002.parquet``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import msgspec
import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.input_files import plain_name, suffix
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read
from rag_assets.sources.fields import (
    DocumentFields,
    Grade,
    Id,
    Place,
    Row,
    declared,
    identifier,
    metadata_json,
    note,
    string,
)
from rag_assets.sources.row_files import PARQUET, Pair, RowFile, read_pairs
from rag_assets.sources.tables import FieldsOf, QrelRows, QueryRows, UniqueIds, read_document_rows

CORPUS = "corpus"
QUERIES = "queries"
QRELS = "qrels"
DEFAULT_SUBSET = "test"
PAIR_KEYS = ("query-id", "corpus-id", "score")

_LINES = ".jsonl"
_PAIRS = (".tsv", _LINES, PARQUET)
_SHARD = re.compile(r"(?P<split>.+)-[0-9]{5}-of-(?P<count>[0-9]{5})")
_ID_KEYS = ("_id", "id")

Splits = Mapping[str, list[Path]]
"""The files of a part by split; those of the qrels by subset."""


class _Pair(msgspec.Struct):
    query_id: Id = msgspec.field(name=PAIR_KEYS[0])
    document_id: Id = msgspec.field(name=PAIR_KEYS[1])
    score: Grade = msgspec.field(name=PAIR_KEYS[2])


class _Parts(NamedTuple):
    corpus: Splits
    queries: Splits
    qrels: Splits


@dataclass(frozen=True)
class BeirDataset(Dataset):
    """One subset of a BEIR folder.

    A document's fields beside ``_id`` (or ``id``), ``title`` and ``text`` are its metadata; a
    query's tags are ``metadata.tags`` where that is a list of strings. A judgment is an evidence of
    its own.
    """

    format: ClassVar[str] = "beir"
    layout: ClassVar[str] = f"a folder with {CORPUS}{_LINES}, {QUERIES}{_LINES} and {QRELS}/"

    root: Path
    subset: str

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        parts = _parts(path)
        return {
            f"{CORPUS}{_LINES}": bool(parts.corpus),
            f"{QUERIES}{_LINES}": bool(parts.queries),
            f"{QRELS}/": bool(parts.qrels) or (path / QRELS).is_dir(),
        }

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return a subset: by default ``test``, or the only one there; without any, no labels."""
        cls.require_parts(path, optional=[f"{QRELS}/"])
        names = list(_parts(path).qrels)
        if subset is not None and subset not in names:
            raise UsageError(f"{path / QRELS}: no subset {allowed_names(subset, names)}")
        if subset is None and len(names) > 1 and DEFAULT_SUBSET not in names:
            problem = f"has no {DEFAULT_SUBSET}.tsv; choose a subset: {', '.join(names)}"
            raise DataError(problem, file=path / QRELS)
        default = names[0] if len(names) == 1 else DEFAULT_SUBSET
        return cls(path, subset or default)

    @property
    def has_qrels(self) -> bool:
        """Whether the subset has its file; a folder without any has no labels yet."""
        return self.subset in _parts(self.root).qrels

    def document_files(self) -> list[Path]:
        return self._files_of(_parts(self.root).corpus)

    def query_files(self) -> list[Path]:
        """Return the queries and, where there are several subsets, what divides them."""
        parts = _parts(self.root)
        dividing = [file for files in parts.qrels.values() for file in files]
        return [*self._files_of(parts.queries), *(dividing if len(parts.qrels) > 1 else [])]

    def qrels_files(self) -> list[Path]:
        """Return the files of the subset; where it has none, the file that would hold it."""
        none = [self.root / QRELS / f"{self.subset}.tsv"]
        return _parts(self.root).qrels.get(self.subset, none)

    def _files_of(self, splits: Splits) -> list[Path]:
        """Return the files of a part for the subset: its own where there are such, else all."""
        return splits.get(self.subset) or [file for files in splits.values() for file in files]

    def read_documents(self, problems: Problems = FIRST) -> Read:
        sources = [RowFile(file, problems) for file in self.document_files()]
        return read_document_rows(sources, _fields_of, problems)

    def document_lines(self) -> tuple[Path, FieldsOf] | None:
        files = self.document_files()
        return (files[0], _fields_of) if [*map(suffix, files)] == [_LINES] else None

    def read_queries(self, problems: Problems = FIRST) -> Read:
        """Return the queries of the subset.

        A query that other subsets alone hold relevant documents for belongs to them; such queries
        are left out and counted in a note. One without any relevant document is kept.
        """
        files = self._files_of(_parts(self.root).queries)
        elsewhere = self._relevant_elsewhere()
        rows, ids, left_out = QueryRows(), UniqueIds("query"), list[str]()
        notes: dict[str, None] = {}
        for source in [RowFile(file, problems) for file in files]:
            for place, row in source.rows():
                with problems:
                    key = _id_key(row)
                    query_id = identifier(row, key, place)
                    ids.add(query_id, place, key)
                    text = string(row, "text", place)
                    if query_id in elsewhere:
                        left_out.append(query_id)
                        continue
                    tags, rest = _split_tags(row)
                    rows.add(query_id, text, tags, metadata_json(rest, frozenset({key, "text"})))
            notes |= dict.fromkeys(source.notes())
        what = f"of subset {self.subset}"
        out = note(
            f"query that is not {what} is left out",
            f"queries that are not {what} are left out",
            left_out,
        )
        return rows.read(Place(files[0]), [*notes, *out])

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        """Return the judgments of the subset, negative and zero grades included."""
        files = self.qrels_files()
        rows = QrelRows(documents, queries, problems)
        for place, pair in _pairs(files, problems):
            with problems:
                rows.resolve(pair.query_id, pair.document_id, place, (PAIR_KEYS[0], PAIR_KEYS[1]))
                rows.add(place, *pair)
        return rows.read(Place(files[0]), [])

    def _relevant_elsewhere(self) -> set[str]:
        qrels = _parts(self.root).qrels
        others = [file for name, files in qrels.items() if name != self.subset for file in files]
        if not others:
            return set()
        here = {pair.query_id for _, pair in _pairs(qrels[self.subset])}
        return {pair.query_id for _, pair in _pairs(others) if pair.grade > 0} - here


def _id_key(row: Row) -> str:
    return next((key for key in _ID_KEYS if key in row), _ID_KEYS[0])


def _fields_of(row: Row, _: Place) -> DocumentFields:
    return DocumentFields((_id_key(row),))


def _split_tags(row: Row) -> tuple[list[str], Row]:
    metadata = row.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return [], row
    rest = {key: value for key, value in (metadata or {}).items() if key != "tags"}
    return list(dict.fromkeys(tags)), {**row, "metadata": rest}


def _parts(path: Path) -> _Parts:
    """Return what of a BEIR dataset is at a path, judged from names only."""
    texts = (_LINES, PARQUET)
    corpus, queries = (_part(path, name, texts, (PARQUET,)) for name in (CORPUS, QUERIES))
    qrels = _part(path, QRELS, _PAIRS, _PAIRS)
    is_parquet = any(suffix(file) == PARQUET for files in corpus.values() for file in files)
    if not qrels and is_parquet:
        qrels = _splits(_in_folder(path / "data"), (PARQUET,))
    return _Parts(corpus, queries, qrels)


def _part(path: Path, part: str, kinds: tuple[str, ...], inner: tuple[str, ...]) -> Splits:
    flat = _splits((file for file in _in_folder(path) if _split_of(file)[0] == part), kinds)
    deep = _splits(_in_folder(path / part), inner)
    if flat and deep:
        problem = f"{flat[part][0].name} exists too; keep one of them"
        raise DataError(problem, file=next(iter(deep.values()))[0])
    return flat or deep


def _in_folder(folder: Path) -> list[Path]:
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return [entry for entry in entries if entry.is_file() and not entry.name.startswith(".")]


def _splits(files: Iterable[Path], kinds: tuple[str, ...]) -> Splits:
    splits: dict[str, list[Path]] = {}
    for file in files:
        if suffix(file) in kinds:
            splits.setdefault(_split_of(file)[0], []).append(file)
    for split in splits.values():
        n_shards = max(_split_of(file)[1] for file in split)
        if len(split) > n_shards:
            raise DataError(f"{split[0].name} exists too; keep one of them", file=split[1])
        if len(split) < n_shards:
            problem = f"is one of {n_shards} shards; only {len(split)} are there"
            raise DataError(problem, file=split[0])
    return splits


def _split_of(file: Path) -> tuple[str, int]:
    """Return the name of a file without shard and kind, and how many shards there are."""
    stem = Path(plain_name(file)).stem
    shard = _SHARD.fullmatch(stem) if suffix(file) == PARQUET else None
    return (shard["split"], int(shard["count"])) if shard else (stem, 1)


def _pairs(files: Iterable[Path], problems: Problems = FIRST) -> Iterator[tuple[Place, Pair]]:
    """Yield every judgment of files of qrels, ``.jsonl`` and ``.parquet`` by name, or tables.

    In JSON and Parquet the fields have the names of the header that a table may have.
    """
    for file in files:
        if suffix(file) in (_LINES, PARQUET):
            yield from problems.each(_row_pair, RowFile(file, problems).rows())
        else:
            yield from read_pairs(file, problems)


def _row_pair(item: tuple[Place, Row]) -> tuple[Place, Pair]:
    place, row = item
    pair = declared(row, _Pair, place, is_text=True)
    return place, Pair(str(pair.query_id), str(pair.document_id), pair.score)
