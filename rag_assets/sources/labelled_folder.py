"""Folders whose queries and judgments lie beside the documents, as JSON lines or CSV.

:class:`Columns` say which key of an object, or column of a table, holds which field of a row. All
documents may stand in one file of JSON lines, CSV or Parquet, one row a document.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.input_files import GZIP, existing, suffix
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read
from rag_assets.sources.fields import (
    DocumentFields,
    Place,
    Row,
    identifier,
    metadata_json,
    note,
    optional_tags,
    shown,
    string,
)
from rag_assets.sources.judgments import has_quotes, read_judgments
from rag_assets.sources.row_files import RowFile
from rag_assets.sources.samples import has_passages, sample_layout, sample_qrels, sample_queries
from rag_assets.sources.tables import FieldsOf, QueryRows, UniqueIds, read_document_rows

DOCUMENT_ID = "document_id"

NAMES: dict[str, tuple[str, ...]] = {
    DOCUMENT_ID: ("document_id", "doc_id", "_id", "id", "docno", "docid"),
    "title": ("title",),
    "text": ("text",),
    "query_id": ("query_id", "_id", "qid"),
    "query": ("text", "query", "question"),
}
"""Every field that can be mapped, with the names that are looked for, in this order."""

_OPTIONAL_FIELDS = frozenset({"title", "query_id", "query"})
"""Fields that are absent under their first name: optional, or missed by the reader itself."""

JUDGMENTS = "judgments"
SUFFIXES = (".jsonl", ".csv")
JSONL_DOCUMENTS = "documents.jsonl"

_QUESTIONS = r"quer(?:y|ies)|questions?|(?:test|eval(?:uation)?)[_ -]?sets?|goldens?|topics"
"""Words in the names of files that people write questions into; those of Ragas are test sets."""

_SAMPLES = rf"{_QUESTIONS}|tests|samples|examples|datasets?"

_LABELS = (
    r"qrels?|judge?ments?|labels?|relevance|gold|annotations?|ground[^a-z]?truth"
    r"|relevant[^a-z]?docs"
)
_NAMES = "questions from queries.jsonl or .csv, labels from judgments.jsonl or .csv"
_ENDS = re.compile(r"(\.(csv|gz|jsonl?|ndjson|parquet|qrels?|trec|tsv|txt|xlsx?|ya?ml|zip))?", re.I)


@dataclass(frozen=True)
class Columns:
    """The mapping of an experiment, field to name; what it leaves out is looked for.

    The id of a document may have several names, for ids that repeat per source: it is then their
    values with ``/`` between, see :func:`fields.joined_id`.
    """

    given: Mapping[str, str | Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, str | Sequence[str]]) -> Columns:
        """Return a mapping after a check of its fields.

        Raises:
            UsageError: a field does not exist, or several names are given for another field than
                the id of a document.
        """
        for name, names in given.items():
            if name not in NAMES:
                raise UsageError(f"unknown field {allowed_names(name, NAMES)}")
            if isinstance(names, str):
                continue
            if name != DOCUMENT_ID:
                raise UsageError(f"`{name}` must be one name; a list is for {DOCUMENT_ID}")
            if not names or len(set(names)) < len(names):
                raise UsageError(f"`{name}` must be a list of different names")
        return cls(dict(given))

    @property
    def id_parts(self) -> tuple[str, ...]:
        """The names whose values make the id of a document together; none where one holds it."""
        names = self.given.get(DOCUMENT_ID, "")
        return () if isinstance(names, str) else tuple(names)

    def document_fields(self, row: Row, place: Place) -> DocumentFields:
        """Return the fields of a document, for the first row."""
        for name in self.id_parts:
            if name not in row:
                raise _missing(DOCUMENT_ID, (name,), row, place, is_mapped=True)
        document_id = self.id_parts or (self.name(DOCUMENT_ID, row, place),)
        return DocumentFields(document_id, *(self.name(n, row, place) for n in ("title", "text")))

    def query_names(self, row: Row, place: Place) -> Names:
        """Return the fields of the id and the text of a query, for the first row."""
        return self.name("query_id", row, place), self.name("query", row, place)

    def name(self, field_name: str, row: Row, place: Place) -> str:
        """Return the name of a field in the first row."""
        mapped = self.given.get(field_name)
        names = (mapped,) if isinstance(mapped, str) else NAMES[field_name]
        for name in names:
            if name in row:
                return name
        if field_name in _OPTIONAL_FIELDS and mapped is None:
            return names[0]
        raise _missing(field_name, names, row, place, is_mapped=mapped is not None)


def _missing(
    field_name: str, names: tuple[str, ...], row: Row, place: Place, *, is_mapped: bool
) -> DataError:
    listed = ", ".join(shown(name, 30) for name in list(row)[:8]) or "none"
    looked_for = " or ".join(shown(name) for name in names)
    advice = "correct `columns`" if is_mapped else f"name it as `{field_name}` under `columns`"
    return place.error(f"no {looked_for} for {field_name}; found: {listed}; {advice}")


@dataclass(frozen=True)
class LabelledFolder(Dataset):
    """A folder with ``queries.jsonl`` and ``judgments.jsonl``, or ``.csv`` in place of each.

    Each may be compressed (``.gz``). Of queries see :mod:`rag_assets.sources.labelled_folder`, of
    judgments :mod:`rag_assets.sources.judgments`.
    """

    documents: ClassVar[str]
    default_chunking: ClassVar[str] = "recursive"

    root: Path
    columns: Columns = field(default_factory=Columns)

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        queries = bool(labelled_files(path, QUERIES))
        return {cls.documents: cls.recognises(path), f"{QUERIES}.jsonl": queries}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        cls.refuse_subset(path, subset)
        if not cls.opens(path):
            raise DataError(f"not {cls.layout}", file=path)
        return cls(path)

    @classmethod
    def opens(cls, path: Path) -> bool:
        """Return whether a path for which this format was asked can be opened."""
        return cls.recognises(path)

    @property
    def default_judge(self) -> str:
        """``document`` when no judgment quotes its document, else ``evidence``.

        Without labels ``evidence``: what people will judge then is what was retrieved, the chunks.
        """
        is_of_samples = not labelled_files(self.root, JUDGMENTS)
        quotes = not self.has_qrels or is_of_samples or has_quotes(self.qrels_files()[0])
        return "evidence" if quotes else "document"

    @property
    def has_qrels(self) -> bool:
        return bool(labelled_files(self.root, JUDGMENTS) or self._labelled_samples())

    @property
    def has_questions(self) -> bool:
        """Whether there is a file of queries, or of samples of another tool."""
        return bool(labelled_files(self.root, QUERIES) or self._samples())

    def _samples(self) -> list[Path]:
        """Return the files of samples: the one of queries, or without such any that looks so."""
        files = labelled_files(self.root, QUERIES)
        return [file for file in files or _alike(self.root, _SAMPLES) if sample_layout(file)]

    def _labelled_samples(self) -> list[Path]:
        return [file for file in self._samples() if has_passages(file)]

    def query_files(self) -> list[Path]:
        if self.has_questions:
            return [self._only(QUERIES, "", self._samples())]
        here = Path.cwd()
        root = self.root.relative_to(here) if self.root.is_relative_to(here) else self.root
        missing = NO_QUESTIONS.format(path=shlex.quote(str(root)))
        return [self._only(QUERIES, "; ".join([missing, *look_alikes(self)]), [])]

    def qrels_files(self) -> list[Path]:
        needed = f"besides documents, the folder needs {QUERIES}.jsonl, and {JUDGMENTS}.jsonl"
        missing = f"no such file; {needed} where there are labels"
        return [self._only(JUDGMENTS, missing, self._labelled_samples())]

    def _only(self, stem: str, missing: str, samples: list[Path]) -> Path:
        files = labelled_files(self.root, stem) or samples
        if not files:
            raise DataError(missing, file=self.root / f"{stem}.jsonl")
        if len(files) > 1:
            raise DataError(f"{files[0].name} exists too; keep one of them", file=files[1])
        return files[0]

    def read_queries(self, problems: Problems = FIRST) -> Read:
        file, rows, ids = self.query_files()[0], QueryRows(), UniqueIds("query")
        if sample_layout(file) is not None:
            return sample_queries(file, problems)
        names: Names | None = None
        for place, row in RowFile(file, problems).rows():
            names = names or self.columns.query_names(row, place)
            with problems:
                query_id = identifier(row, names[0], place)
                ids.add(query_id, place, "query_id")
                if suffix(file) == ".csv" and "tags" in row:
                    tags = row["tags"].split(",") if row["tags"].strip() else []
                    row = {**row, "tags": [tag.strip() for tag in tags]}
                tags = optional_tags(row, "tags", place)
                rest = metadata_json(row, frozenset({*names, "tags"}))
                text = string(row, names[1], place)
                if text in _EXAMPLE_TEXTS:
                    problem = "is still an example from `rag-assets init`; put your own "
                    problem += "question in its place, or delete the line"
                    raise place.error(problem, names[1])
                rows.add(query_id, text, tags, rest)
        return rows.read(Place(file), [])

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        file, id_parts = self.qrels_files()[0], self.columns.id_parts
        if not labelled_files(self.root, JUDGMENTS):
            return sample_qrels(file, documents, queries, problems)
        return read_judgments(file, documents, queries, problems, id_parts)


def look_alikes(dataset: Dataset, named: Collection[Path] = ()) -> list[str]:
    """Return a note on files that look like questions or labels and are not read as such.

    They are told by their names; labels are looked for where there are none, also in folders whose
    names tell. What cannot be looked at is not told.

    Args:
        dataset: whose folder is looked at.
        named: files that the experiment reads as something else.
    """
    root, is_folder = dataset.root, isinstance(dataset, LabelledFolder)
    words = [*([_QUESTIONS] if is_folder else []), *([] if dataset.has_qrels else [_LABELS])]
    if not words or not root.is_dir():
        return []
    others = {file.resolve() for file in named}
    for stem in (QUERIES, JUDGMENTS) if is_folder else ():
        others |= {file.resolve() for file in labelled_files(root, stem)}
    if isinstance(dataset, LabelledFolder) and dataset.has_questions:
        others.add(dataset.query_files()[0].resolve())
    files = (file for file in _alike(root, "|".join(words)) if file.resolve() not in others)
    names = [file.relative_to(root).as_posix() for file in files]
    one, many = "file looks like", "files look like"
    what = " or ".join(["questions"] * is_folder + ["labels"] * (not dataset.has_qrels))
    lines = note(f"{one} {what}, not read as such", f"{many} {what}, not read as such", names)
    where = f"format {dataset.format} reads {_NAMES if is_folder else dataset.layout}"
    return [f"{line}; {where}" for line in lines]


def _alike(root: Path, words: str) -> list[Path]:
    """Return files whose names, or those of their folders in ``root``, hold one of the words."""
    pattern = re.compile(rf"(?<![a-z])(?:{words})(?![a-z])")
    alike: list[Path] = []
    with suppress(OSError):
        for entry in sorted(root.iterdir()):
            is_alike = pattern.search(entry.name.lower()) is not None
            files = sorted(entry.iterdir()) if is_alike and entry.is_dir() else [entry] * is_alike
            alike += [
                file
                for file in files
                if not file.name.startswith(".") and _ENDS.fullmatch(file.suffix) and file.is_file()
            ]
    return alike


def labelled_files(root: Path, stem: str) -> list[Path]:
    """Return the files of a folder that hold its queries, or judgments; it may have one."""
    names = [f"{stem}{kind}{end}" for kind in SUFFIXES for end in ("", GZIP)]
    return [path for name in names if (path := root / name).is_file()]


@dataclass(frozen=True)
class RecordFolder(LabelledFolder):
    """All documents in the file ``documents``.

    Id, title and text stand under the names of :data:`NAMES`, or those of the mapping; all other
    fields are metadata.
    """

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return cls._file(path) is not None

    @classmethod
    def _file(cls, folder: Path) -> Path | None:
        return existing(folder / cls.documents)

    def document_files(self) -> list[Path]:
        return [self._file(self.root) or self.root / self.documents]

    def read_documents(self, problems: Problems = FIRST) -> Read:
        sources = [RowFile(self.document_files()[0], problems)]
        return read_document_rows(sources, self._fields_of(), problems)

    def document_lines(self) -> tuple[Path, FieldsOf] | None:
        (file,) = self.document_files()
        return (file, self._fields_of()) if suffix(file) == ".jsonl" else None

    def _fields_of(self) -> FieldsOf:
        """Return what gives the fields of a document: those of the first row that it is given."""
        fields: list[DocumentFields] = []

        def fields_of(row: Row, place: Place) -> DocumentFields:
            if not fields:
                fields.append(self.columns.document_fields(row, place))
            return fields[0]

        return fields_of


@dataclass(frozen=True)
class JsonlDataset(RecordFolder):
    """``documents.jsonl``, one object a document; ``corpus.jsonl`` is taken as well."""

    format: ClassVar[str] = "jsonl"
    layout: ClassVar[str] = f"a folder with {JSONL_DOCUMENTS}, or corpus.jsonl and no qrels/"
    documents: ClassVar[str] = JSONL_DOCUMENTS

    @classmethod
    def _file(cls, folder: Path) -> Path | None:
        corpus = None if (folder / "qrels").is_dir() else existing(folder / "corpus.jsonl")
        return existing(folder / JSONL_DOCUMENTS) or corpus


@dataclass(frozen=True)
class CsvDataset(RecordFolder):
    """``documents.csv``, one row a document, below a header; every field is text."""

    format: ClassVar[str] = "csv"
    layout: ClassVar[str] = "a folder with documents.csv"
    documents: ClassVar[str] = "documents.csv"


@dataclass(frozen=True)
class ParquetDataset(RecordFolder):
    """``documents.parquet``, one row a document; notes tell what JSON metadata cannot hold."""

    format: ClassVar[str] = "parquet"
    layout: ClassVar[str] = "a folder with documents.parquet"
    documents: ClassVar[str] = "documents.parquet"

    @classmethod
    def _file(cls, folder: Path) -> Path | None:
        file = folder / cls.documents  # never compressed as text may be
        return file if file.is_file() else None


QUERIES = "queries"
QUERIES_FILE = f"{QUERIES}.jsonl"

NO_QUESTIONS = (
    "there are no questions yet; `rag-assets init {path}` writes examples to replace, `rag-assets "
    'ask {path} "a question"` shows at once what is found for one, `rag-assets generate {path}` '
    "has a language model write some"
)
"""What to do next where documents are all that there is."""

_EXAMPLES: tuple[dict[str, object], ...] = (
    {"query_id": "q1", "text": "EXAMPLE: replace this line with a question from your users"},
    {
        "query_id": "q2",
        "text": "EXAMPLE: one line per question; tags are optional and group the results",
        "tags": ["how-to"],
    },
    {
        "query_id": "q3",
        "text": "EXAMPLE: ten questions show something, a hundred separate close retrievers",
    },
)
"""What ``rag-assets init`` writes where there are no questions: never read as such."""

_EXAMPLE_TEXTS = frozenset(example["text"] for example in _EXAMPLES)

N_EXAMPLES = len(_EXAMPLES)

Names = tuple[str, str]
"""The fields of the id and of the text."""


def template_text() -> str:
    """Return the lines of a ``queries.jsonl`` to fill in."""
    return "".join(f"{json.dumps(example)}\n" for example in _EXAMPLES)


def examples_left(file: Path) -> int:
    """Return how many examples still stand in a file as they were written."""
    if not file.is_file():
        return 0
    examples = set(template_text().encode().splitlines())
    with file.open("rb") as lines:
        return sum(line.strip() in examples for line in lines)
