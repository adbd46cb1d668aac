"""Queries and judgments that lie beside the documents of a folder, as JSON lines or CSV.

:class:`Columns` say which key of an object, or column of a table, holds which field of a row.
"""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    Place,
    Row,
    identifier,
    metadata_json,
    note,
    optional_tags,
    shown,
    string,
)
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.judgments import has_quotes, read_judgments
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.query_log import read_query_log
from rag_assets.sources.row_files import Rows, row_file
from rag_assets.sources.rows import QueryRows
from rag_assets.text_files import GZIP, suffix

DOCUMENT_ID = "document_id"

NAMES: dict[str, tuple[str, ...]] = {
    DOCUMENT_ID: ("document_id", "doc_id", "_id", "id"),
    "title": ("title",),
    "text": ("text",),
    "query_id": ("query_id", "_id"),
    "query": ("text", "query"),
}
"""Every field that can be mapped, with the names that are looked for, in this order."""


_OPTIONAL_FIELDS = frozenset({"title", "query_id", "query"})
"""Fields that are absent under their first name: optional, or missed by the reader itself."""

QUERIES = "queries"
QUERIES_FILE = f"{QUERIES}.jsonl"
QUERY_LOG = "query_log"
JUDGMENTS = "judgments"
SUFFIXES = (".jsonl", ".csv")

NO_QUESTIONS = (
    "there are no questions yet; `rag-assets init {path}` writes examples to replace, `rag-assets "
    'ask {path} "a question"` shows at once what is found for one, `rag-assets generate {path}` '
    "has a language model write some"
)
"""What to do next where documents are all that there is."""

_QUESTION_LIKE = re.compile(
    r"([\w-]*[_ -])?(quer(y|ies)|questions?|(test|eval(uation)?)[_ -]?sets?|goldens?|topics)"
    r"([_ -][\w-]*)?\.(csv|jsonl?|parquet|tsv|txt|xlsx)(\.gz)?",
    re.IGNORECASE,
)
"""Names of files that people write questions into; those of Ragas are test sets."""


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

    def document_id(self, present: Collection[str], place: Place) -> tuple[str, ...]:
        """Return the names that hold the id of a document, among those ``present`` in a row.

        Raises:
            DataError: one is not there.
        """
        for name in self.id_parts:
            if name not in present:
                raise place.error(_missing(DOCUMENT_ID, (name,), True, present))
        return self.id_parts or (self.name(DOCUMENT_ID, present, place),)

    def name(self, field_name: str, present: Collection[str], place: Place) -> str:
        """Return the name of a field among those ``present`` in the first row.

        Raises:
            DataError: none of its names is there, and the field is needed.
        """
        mapped = self.given.get(field_name)
        names = (mapped,) if isinstance(mapped, str) else NAMES[field_name]
        for name in names:
            if name in present:
                return name
        if field_name in _OPTIONAL_FIELDS and mapped is None:
            return names[0]
        raise place.error(_missing(field_name, names, mapped is not None, present))


@dataclass(frozen=True)
class LabelledFolder(ABC):
    """A folder with ``queries.jsonl`` and ``judgments.jsonl``, or ``.csv`` in place of each.

    Each may be compressed (``.gz``).

    A ``query_log`` takes the place of ``queries``: see :mod:`rag_assets.sources.query_log`.

    Fields of a query: ``query_id``, ``text``, and if wanted ``tags`` (in CSV separated by commas);
    all others are metadata. Fields of a judgment: ``query_id``, ``doc_id``, and if wanted
    ``quote``, ``relevance`` and ``evidence_id``.
    """

    format: ClassVar[str]
    layout: ClassVar[str]
    documents: ClassVar[str]
    default_chunking: ClassVar[str] = "recursive"

    root: Path
    columns: Columns = field(default_factory=Columns)

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the folder holds documents of this format."""

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return documents and queries, and which are there."""
        queries = _files(path, QUERIES) + _files(path, QUERY_LOG)
        return {cls.documents: cls.recognises(path), f"{QUERIES}.jsonl": bool(queries)}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the folder.

        Raises:
            DataError: it is not a folder of this layout.
            UsageError: a subset is asked for; only BEIR folders have some.
        """
        if subset is not None:
            problem = f"subset '{subset}': a {cls.format} folder has no subsets"
            raise UsageError(f"{path}: {problem}")
        if not cls.opens(path):
            raise DataError(f"not {cls.layout}", file=path)
        return cls(path)

    @classmethod
    def opens(cls, path: Path) -> bool:
        """Return whether a path for which this format was asked can be opened."""
        return cls.recognises(path)

    def with_columns(self, columns: Columns) -> Self:
        """Return the same folder, its fields under other names."""
        return type(self)(self.root, columns)

    @property
    def default_judge(self) -> str:
        """``document`` when no judgment quotes its document, else ``evidence``.

        Without labels ``evidence``: what people will judge then is what was retrieved, the chunks.
        """
        if not self.has_qrels:
            return "evidence"
        return "evidence" if has_quotes(self.qrels_files()[0]) else "document"

    @property
    def has_qrels(self) -> bool:
        """Whether there is ``judgments.jsonl`` or ``judgments.csv``."""
        return bool(_files(self.root, JUDGMENTS))

    def query_files(self) -> list[Path]:
        """Return ``queries.jsonl``, ``queries.csv``, or the query log.

        Raises:
            DataError: there is none, or more than one.
        """
        log = _files(self.root, QUERY_LOG)
        if not log:
            missing = NO_QUESTIONS.format(path=_shown(self.root))
            return [_only(self.root, QUERIES, "; ".join([missing, *self.question_like()]))]
        queries = _files(self.root, QUERIES)
        if queries:
            problem = f"{queries[0].name} exists too; keep the queries or the query log"
            raise DataError(problem, file=log[0])
        return [_only(self.root, QUERY_LOG)]

    @property
    def has_questions(self) -> bool:
        """Whether there is a file of queries or a query log, judged from names only."""
        return self.has_query_log or bool(_files(self.root, QUERIES))

    def question_like(
        self, documents: Collection[Path] = (), named: Collection[Path] = ()
    ) -> list[str]:
        """Return a note on files at the top that look like questions and are not read as such.

        Args:
            documents: files that are read as documents.
            named: resolved paths of files that the experiment reads as something else.
        """
        read_as = _files(self.root, QUERIES) + _files(self.root, QUERY_LOG)
        others = {*read_as, *_files(self.root, JUDGMENTS)}
        try:
            entries = sorted(entry for entry in self.root.iterdir() if entry not in others)
        except OSError:  # what cannot be looked at is not told to be there
            return []
        files = [
            entry
            for entry in entries
            if _QUESTION_LIKE.fullmatch(entry.name)
            and entry.is_file()
            and entry.resolve() not in named
        ]
        looks = "file looks like questions and is", "files look like questions and are"
        lines = note(
            f"{looks[0]} read as a document",
            f"{looks[1]} read as documents",
            [file.name for file in files if file in documents],
        )
        unread = [file.name for file in files if file not in documents]
        lines += note(f"{looks[0]} not read", f"{looks[1]} not read", unread)
        names = [file.name for file in read_as] or [f"{QUERIES}{kind}" for kind in SUFFIXES]
        return [f"{line}; questions are read from {' or '.join(names)}" for line in lines]

    @property
    def has_query_log(self) -> bool:
        """Whether the queries are a log, judged from names only."""
        return bool(_files(self.root, QUERY_LOG))

    def qrels_files(self) -> list[Path]:
        """Return ``judgments.jsonl`` or ``judgments.csv``.

        Raises:
            DataError: there is none, or both.
        """
        return [_only(self.root, JUDGMENTS)]

    def read_queries(self) -> Read:
        """Return the queries."""
        file = self.query_files()[0]
        if file.name.startswith(QUERY_LOG):
            return self._read_query_log(file)
        rows, ids = QueryRows(), UniqueIds("query")
        names: tuple[str, str] | None = None
        for place, row in _query_rows(file):
            names = names or self._query_names(row, place)
            with skipping_bad_rows():
                query_id = identifier(row, names[0], place)
                ids.add(query_id, place, "query_id")
                tags = optional_tags(row, "tags", place)
                rest = metadata_json(row, frozenset({*names, "tags"}))
                text = string(row, names[1], place)
                if problem := example_problem(text):
                    raise place.error(problem, names[1])
                rows.add(query_id, text, tags, rest)
        return rows.read(Place(file), [])

    def _read_query_log(self, file: Path) -> Read:
        rows = list(_query_rows(file))
        if not rows:
            raise Place(file).error("holds no query; at least one is needed")
        place, first = rows[0]
        return read_query_log(file, rows, self._query_names(first, place))

    def _query_names(self, row: Row, place: Place) -> tuple[str, str]:
        present = list(row)
        query_id = self.columns.name("query_id", present, place)
        return query_id, self.columns.name("query", present, place)

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the judgments, quotes as spans in characters of the text."""
        return read_judgments(self.qrels_files()[0], documents, queries, self.columns.id_parts)


def _query_rows(file: Path) -> Rows:
    is_csv = suffix(file) == ".csv"
    for place, row in row_file(file).rows():
        if is_csv and "tags" in row:
            tags = [tag.strip() for tag in row["tags"].split(",")] if row["tags"].strip() else []
            yield place, {**row, "tags": tags}
        else:
            yield place, row


def _files(root: Path, stem: str) -> list[Path]:
    names = [f"{stem}{kind}{end}" for kind in SUFFIXES for end in ("", GZIP)]
    return [path for name in names if (path := root / name).is_file()]


def _only(root: Path, stem: str, missing: str | None = None) -> Path:
    files = _files(root, stem)
    if len(files) == 1:
        return files[0]
    if files:
        raise DataError(f"{files[0].name} exists too; keep one of them", file=files[1])
    needed = (
        f"no such file; besides its documents the folder needs {QUERIES}.jsonl, and "
        f"{JUDGMENTS}.jsonl where there are labels"
    )
    raise DataError(missing or needed, file=root / f"{stem}.jsonl")


def _shown(root: Path) -> str:
    """Return a folder as it can be typed from here."""
    here = Path.cwd()
    return shlex.quote(str(root.relative_to(here) if root.is_relative_to(here) else root))


def _missing(
    field_name: str, names: tuple[str, ...], is_mapped: bool, present: Collection[str]
) -> str:
    listed = ", ".join(shown(name, 30) for name in list(present)[:8]) or "none"
    looked_for = " or ".join(shown(name) for name in names)
    advice = "correct `columns`" if is_mapped else f"name it as `{field_name}` under `columns`"
    return f"no {looked_for} for {field_name}; found: {listed}; {advice}"


_EXAMPLES: tuple[dict[str, object], ...] = (
    {"query_id": "q1", "text": "EXAMPLE: replace this line by a question as your users ask it"},
    {
        "query_id": "q2",
        "text": "EXAMPLE: one line a question; results are shown by its tags, if it has any",
        "tags": ["how-to"],
    },
    {
        "query_id": "q3",
        "text": "EXAMPLE: ten questions show something, a hundred tell close retrievers apart",
    },
)
"""What ``rag-assets init`` writes where there are no questions: never read as such."""

_TEXTS = frozenset(example["text"] for example in _EXAMPLES)

N_EXAMPLES = len(_EXAMPLES)


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


def example_problem(text: str) -> str | None:
    """Return why a query is none where it is still an example; None for every other text."""
    if text not in _TEXTS:
        return None
    return (
        "is still the example that `rag-assets init` wrote; put your own question in its place, "
        "or delete the line"
    )
