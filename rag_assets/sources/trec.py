"""TREC folders: topics, qrels and a corpus; those of MS MARCO too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Place
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.rows import DocumentRows, Parse, QrelRows, QueryRows, Record, read_in_blocks
from rag_assets.sources.trec_corpus import parsed_document, raw_documents, read_corpus_file
from rag_assets.sources.trec_topics import read_topics
from rag_assets.store.blocks import KnownBlocks
from rag_assets.text_files import suffix
from rag_assets.trec_lines import qrel_line, read_fields

TOPICS = "topics"
QRELS = "qrels"
QUERIES = "queries"
CORPUS_NAMES = ("corpus", "collection", "documents", "docs")

_PARTS = {
    TOPICS: f"{TOPICS}.* or {QUERIES}.tsv",
    QRELS: f"{QRELS}*",
    "corpus": "corpus.*, corpus/ or collection.tsv",
}
_QUERIES_KINDS = (".tsv", ".txt", ".xml")
_OTHER_FORMATS = frozenset({".md", ".markdown", ".json", ".jsonl", ".csv", ".parquet"})
_EXTENSIONS = frozenset({".txt", ".tsv", ".trec", ".xml", ".qrels", ".topics", ".gz"})
_STEM = re.compile(rf"({TOPICS}|{QUERIES})[._-]")
_PART = re.compile(rf"(?:{TOPICS}|{QUERIES}|{QRELS})[._-]*", re.IGNORECASE)


@dataclass(frozen=True)
class TrecDataset:
    """Topics, qrels and documents of a folder.

    The documents are ``corpus.*`` or a folder ``corpus/`` (``collection``, ``documents``, ``docs``
    as well), with the extension ``.jsonl`` as JSON lines, ``.tsv`` as a line a document, else as
    ``<DOC>`` blocks. Topics are ``topics.*``, or ``queries.*`` as ``.tsv``, ``.txt`` or ``.xml``.
    Everything may be ``.gz``. A subset is the middle of a name: ``dl19`` chooses
    ``topics.dl19.tsv`` and ``qrels.dl19.txt``. A judgment is an evidence of its own; the column of
    iterations is ignored.
    """

    format: ClassVar[str] = "trec"
    layout: ClassVar[str] = f"a folder with {', '.join(_PARTS.values())}"
    default_judge: ClassVar[str] = "document"
    default_chunking: ClassVar[str] = "none"
    has_qrels: ClassVar[bool] = True

    root: Path
    topics: Path
    qrels: Path
    corpus: Path

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the folder has all three parts."""
        return path.is_dir() and all(_parts(path).values())

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return the three parts, and which are there."""
        part_files = _parts(path) if path.is_dir() else {}
        return {_PARTS[part]: bool(files) for part, files in part_files.items()}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the folder, or one subset of it.

        Raises:
            DataError: a part is missing, or there is more than one file for it.
            UsageError: there is no subset of this name.
        """
        if not path.is_dir():
            raise DataError(f"not {cls.layout}", file=path)
        parts = _parts(path)
        missing = [_PARTS[part] for part, files in parts.items() if not files]
        if missing:
            raise DataError(f"not a TREC folder: {', '.join(missing)} missing", file=path)
        qrels = _chosen(parts[QRELS], subset, path, QRELS)
        # Qrels of several subsets may share the only topics.
        subset_of_topics = subset if len(parts[TOPICS]) > 1 else None
        topics = _chosen(parts[TOPICS], subset_of_topics, path, TOPICS)
        return cls(path, topics, qrels, _only(parts["corpus"], path, "the corpus"))

    def document_files(self) -> list[Path]:
        """Return the corpus, sorted by path where it is a folder."""
        if not self.corpus.is_dir():
            return [self.corpus]
        files = (f for f in self.corpus.rglob("*") if f.is_file() and not _hidden(f, self.corpus))
        return sorted(files, key=lambda file: file.relative_to(self.corpus).as_posix())

    def query_files(self) -> list[Path]:
        """Return the topics."""
        return [self.topics]

    def qrels_files(self) -> list[Path]:
        """Return the qrels."""
        return [self.qrels]

    def read_document_blocks(self, known: KnownBlocks) -> Read | None:
        """Return the documents where all files are of one kind, by which a record is parsed."""
        files = self.document_files()
        if len({suffix(file) for file in files}) != 1:
            return None
        return read_in_blocks(known, chain.from_iterable(map(raw_documents, files)), _parser)

    def read_documents(self) -> Read:
        """Return the documents of all files of the corpus."""
        files = self.document_files()
        rows, ids = DocumentRows(), UniqueIds("document")
        for file in files:
            for place, key, document_id, title, text, metadata in read_corpus_file(file):
                with skipping_bad_rows():
                    ids.add(document_id, place, key)
                    rows.add(document_id, title, text, metadata)
        return rows.read(Place(self.corpus), [])

    def read_queries(self) -> Read:
        """Return the topics."""
        rows, ids = QueryRows(), UniqueIds("query")
        for place, query_id, text, metadata in read_topics(self.topics):
            with skipping_bad_rows():
                ids.add(query_id, place, "num")
                rows.add(query_id, text, [], metadata)
        return rows.read(Place(self.topics), [])

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the judgments, negative and zero grades included."""
        rows = QrelRows(documents, queries)
        for number, fields in read_fields(self.qrels):
            with skipping_bad_rows():
                place = Place(self.qrels, number)
                _, query_id, document_id, grade = qrel_line(self.qrels, number, fields)
                rows.resolve(query_id, document_id, place, ("query", "document"))
                rows.add(place, query_id, document_id, grade)
        return rows.read(Place(self.qrels), [])


def _parser(first: Record) -> tuple[str, Parse]:
    def parse(block: Sequence[Record]) -> pa.Table:
        rows = DocumentRows()
        for place, record in block:
            rows.add(*parsed_document(place, record)[2:])
        return rows.table()

    return f"trec{suffix(first[0].file)}", parse


def _parts(path: Path) -> dict[str, list[Path]]:
    """Return what could be each part of the folder, sorted by name."""
    parts: dict[str, list[Path]] = {part: [] for part in _PARTS}
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name):
        stem = entry.name.lower().split(".")[0]
        if stem in CORPUS_NAMES and (entry.is_dir() or entry.is_file()):
            parts["corpus"].append(entry)
        elif entry.is_file() and suffix(entry) not in _OTHER_FORMATS:
            for part in _candidate_parts(entry):
                parts[part].append(entry)
    topics = [file for file in parts[TOPICS] if file.name.lower().startswith(TOPICS)]
    return {**parts, TOPICS: topics or parts[TOPICS]}


def _candidate_parts(file: Path) -> Iterator[str]:
    name = file.name.lower()
    stem = _STEM.match(name)
    if stem and (stem[1] == TOPICS or suffix(file) in _QUERIES_KINDS):
        yield TOPICS
    if name.startswith(QRELS):
        yield QRELS


def _chosen(files: list[Path], subset: str | None, path: Path, part: str) -> Path:
    if subset is None:
        return _only(files, path, part)
    names = {_subset(file): file for file in files}
    if subset not in names:
        raise UsageError(f"{path}: no {part} of subset {allowed_names(subset, names)}")
    return names[subset]


def _only(files: list[Path], path: Path, part: str) -> Path:
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        hint = "; choose a subset" if part in (TOPICS, QRELS) else "; keep one"
        raise DataError(f"more than one file for {part}: {names}{hint}", file=path)
    return files[0]


def _subset(file: Path) -> str:
    """Return the middle of a file's name: ``dl19`` of ``qrels.dl19.txt.gz``."""
    name = file.name
    while Path(name).suffix.lower() in _EXTENSIONS:
        name = Path(name).stem
    return _PART.sub("", name, count=1)


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(root).parts)
