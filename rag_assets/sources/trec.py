"""TREC folders: topics and qrels with a corpus of lines; those of MS MARCO too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.input_files import suffix
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read
from rag_assets.sources.fields import DocumentFields, Place, Row, checked_id
from rag_assets.sources.row_files import read_lines, read_objects, read_pairs
from rag_assets.sources.tables import DocumentRows, QrelRows, QueryRows, UniqueIds

TOPICS = "topics"
QRELS = "qrels"
QUERIES = "queries"
CORPUS = "corpus"
CORPUS_NAMES = (CORPUS, "collection", "documents", "docs")

_PARTS = {
    TOPICS: f"{TOPICS}.* or {QUERIES}.tsv",
    QRELS: f"{QRELS}*",
    CORPUS: "corpus.jsonl, corpus/ or collection.tsv",
}
_QUERIES_KINDS = (".tsv", ".txt")
_OTHER_FORMATS = frozenset({".md", ".markdown", ".json", ".jsonl", ".csv", ".parquet"})
_EXTENSIONS = frozenset({".txt", ".tsv", ".trec", ".xml", ".qrels", ".topics", ".gz"})
_STEM = re.compile(rf"({TOPICS}|{QUERIES})[._-]")
_PART = re.compile(rf"(?:{TOPICS}|{QUERIES}|{QRELS})[._-]*", re.IGNORECASE)
_ID_KEYS = ("_id", "id", "docno", "doc_id", "docid")
_TEXT_KEYS = ("text", "contents")
_HEADER = ["qid", "query"]
"""Of topics that PyTerrier wrote."""

Document = tuple[str, str, str, str]
"""Id, title, text and metadata of a document."""


@dataclass(frozen=True)
class TrecDataset(Dataset):
    """Topics, qrels and documents of a folder.

    The documents are ``corpus.jsonl``, ``corpus.tsv`` or a folder ``corpus/`` of such files
    (``collection``, ``documents``, ``docs`` as well). Topics have a line a query: ``topics.*``, or
    ``queries.*`` as ``.tsv`` or ``.txt``.
    Everything may be ``.gz``. A subset is the middle of a name: ``dl19`` chooses
    ``topics.dl19.tsv`` and ``qrels.dl19.txt``. A judgment is an evidence of its own; the column of
    iterations is ignored.
    """

    format: ClassVar[str] = "trec"
    layout: ClassVar[str] = f"a folder with {', '.join(_PARTS.values())}"

    root: Path
    topics: Path
    qrels: Path
    corpus: Path

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        part_files = _parts(path) if path.is_dir() else {}
        return {_PARTS[part]: bool(files) for part, files in part_files.items()}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        cls.require_parts(path)
        parts = _parts(path)
        qrels = _chosen(parts[QRELS], subset, path, QRELS)
        # Qrels of several subsets may share the only topics.
        subset_of_topics = subset if len(parts[TOPICS]) > 1 else None
        topics = _chosen(parts[TOPICS], subset_of_topics, path, TOPICS)
        return cls(path, topics, qrels, _chosen(parts[CORPUS], None, path, "the corpus"))

    def document_files(self) -> list[Path]:
        if not self.corpus.is_dir():
            return [self.corpus]
        names = {file.relative_to(self.corpus): file for file in self.corpus.rglob("*")}
        visible = (name for name in names if not any(part.startswith(".") for part in name.parts))
        return [names[name] for name in sorted(visible, key=Path.as_posix) if names[name].is_file()]

    def query_files(self) -> list[Path]:
        return [self.topics]

    def qrels_files(self) -> list[Path]:
        return [self.qrels]

    def read_documents(self, problems: Problems = FIRST) -> Read:
        rows, ids = DocumentRows(), UniqueIds("document")
        for file in self.document_files():
            for place, document in _documents(file, problems):
                with problems:
                    ids.add(document[0], place, "id")
                    rows.add(*document)
        return rows.read(Place(self.corpus), [])

    def read_queries(self, problems: Problems = FIRST) -> Read:
        rows, ids = QueryRows(), UniqueIds("query")
        for place, line in read_lines(self.topics, problems):
            if line.lstrip().startswith("<"):
                problem = "is SGML or XML, which is not supported"
                raise place.error(f"{problem}; write topics as lines 'id<TAB>text'")
            if place.line == 1 and line.split("\t") == _HEADER:
                continue
            with problems:
                query_id, text = _topic(place, line)
                ids.add(query_id, place, "id")
                rows.add(query_id, text, [])
        return rows.read(Place(self.topics), [])

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        rows = QrelRows(documents, queries, problems)
        for place, pair in read_pairs(self.qrels, problems):
            with problems:
                rows.resolve(pair.query_id, pair.document_id, place, ("query", "document"))
                rows.add(place, *pair)
        return rows.read(Place(self.qrels), [])


def _documents(file: Path, problems: Problems) -> Iterator[tuple[Place, Document]]:
    """Yield the documents of a file.

    Lines of ``.jsonl`` hold an id (:data:`_ID_KEYS`), ``text`` or
    ``contents``, and if wanted ``title``. Lines of ``.tsv`` hold ``id<TAB>text``, as MS MARCO's
    ``collection.tsv``, or ``id<TAB>text<TAB>title``.
    """
    if suffix(file) == ".jsonl":
        return problems.each(_row_document, read_objects(file, problems))
    if suffix(file) == ".tsv":
        return problems.each(_line_document, read_lines(file, problems))
    problem = "a corpus is a file .jsonl or .tsv; TREC's SGML is not supported"
    raise DataError(f"{problem}: write its documents as JSON lines", file=file)


def _topic(place: Place, line: str) -> tuple[str, str]:
    """Return id and text of a line: ``id<TAB>text``, or the id up to the first blank."""
    name, tab, text = line.partition("\t")
    if not tab:
        name, blank, text = line.strip().partition(" ")
        if not blank:
            raise place.error("found no text; must be 'id<TAB>text' or 'id text'")
        text = text.lstrip()
    return checked_id(name.strip(), place, "id"), text


def _row_document(item: tuple[Place, Row]) -> tuple[Place, Document]:
    place, row = item
    id_key, text_key = (
        next((key for key in keys if key in row), keys[0]) for keys in (_ID_KEYS, _TEXT_KEYS)
    )
    fields = DocumentFields((id_key,), text=text_key)
    return place, (fields.read_id(row, place), *fields.read_rest(row, place))


def _line_document(line: tuple[Place, str]) -> tuple[Place, Document]:
    place, text = line
    columns = text.split("\t")
    if len(columns) not in (2, 3):
        forms = "id<TAB>text or id<TAB>text<TAB>title"
        raise place.error(f"found {len(columns)} columns, separated by tabs; must be {forms}")
    title = columns[2].strip() if len(columns) == 3 else ""
    return place, (checked_id(columns[0].strip(), place, "id"), title, columns[1], "{}")


def _parts(path: Path) -> dict[str, list[Path]]:
    """Return what could be each part of the folder, sorted by name."""
    parts: dict[str, list[Path]] = {part: [] for part in _PARTS}
    queries: list[Path] = []
    for entry in sorted(path.iterdir()):
        name = entry.name.lower()
        if name.split(".")[0] in CORPUS_NAMES and (entry.is_dir() or entry.is_file()):
            parts[CORPUS].append(entry)
        elif entry.is_file() and suffix(entry) not in _OTHER_FORMATS:
            stem = _STEM.match(name)
            if name.startswith(QRELS):
                parts[QRELS].append(entry)
            elif stem and stem[1] == TOPICS:
                parts[TOPICS].append(entry)
            elif stem and suffix(entry) in _QUERIES_KINDS:
                queries.append(entry)
    return {**parts, TOPICS: parts[TOPICS] or queries}


def _chosen(files: list[Path], subset: str | None, path: Path, part: str) -> Path:
    if subset is None and len(files) > 1:
        names = ", ".join(file.name for file in files)
        hint = "; choose a subset" if part in (TOPICS, QRELS) else "; keep one"
        raise DataError(f"more than one file for {part}: {names}{hint}", file=path)
    if subset is None:
        return files[0]
    subsets = {_subset(file): file for file in files}
    if subset not in subsets:
        raise UsageError(f"{path}: no {part} of subset {allowed_names(subset, subsets)}")
    return subsets[subset]


def _subset(file: Path) -> str:
    """Return the middle of a file's name: ``dl19`` of ``qrels.dl19.txt.gz``."""
    name = file.name
    while Path(name).suffix.lower() in _EXTENSIONS:
        name = Path(name).stem
    return _PART.sub("", name, count=1)
