"""What every dataset format offers, and what a reader does with a problem in its files.

A reader is given :class:`Problems` and reads each row inside ``with problems:``. So there is one
code path, whether the first problem is wanted or all.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError, UsageError

FORMAT = "format"
DUPLICATE_ID = "duplicate_id"
DUPLICATE_JUDGMENT = "duplicate_judgment"
UNKNOWN_ID = "unknown_id"
ID_LEVEL = "id_level"
QUOTE_VANISHED = "quote_vanished"
QUOTE_MOVED = "quote_moved"
QUOTE_TWICE = "quote_twice"
EMPTY = "empty"

Raw = TypeVar("Raw")
Parsed = TypeVar("Parsed")


class RowError(DataError):
    """A problem at a known place, in parts that a program can sort by.

    Attributes:
        problem: what was found and what is allowed, without the place.
        file: where it was found.
        line: counted from 1; None where the format has no lines.
        key: the field.
        check: what kind of problem it is, such as ``format`` or ``unknown_id``.
        query_id: the query that the row is about, when that is known.
        document_id: the document.
        evidence_id: the evidence.
    """

    query_id: str | None = None
    document_id: str | None = None
    evidence_id: str | None = None

    def __init__(
        self,
        problem: str,
        *,
        file: Path,
        line: int | None = None,
        key: str | None = None,
        check: str = FORMAT,
    ) -> None:
        super().__init__(problem, file=file, line=line, key=key)
        self.problem, self.check = problem, check
        self.file, self.line, self.key = file, line, key


@contextmanager
def error_context(
    query_id: str | None = None, document_id: str | None = None, evidence_id: str | None = None
) -> Iterator[None]:
    """Name what a row is about in every problem that is raised inside."""
    try:
        yield
    except RowError as error:
        error.query_id, error.document_id = query_id, document_id
        error.evidence_id = evidence_id
        raise


class Problems:
    """What a reader does with a problem: raise it, or collect it and leave the row out.

    Attributes:
        collected: the problems so far; None: the first one is raised.
        keeps_unknown: judgments of documents that are not in the corpus are no problem: such a
            document stays in R and is never found, as in trec_eval.
    """

    def __init__(self, *, collect: bool = False, keeps_unknown: bool = False) -> None:
        self.collected: list[DataError] | None = [] if collect else None
        self.keeps_unknown = keeps_unknown

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Collect a problem, where problems are collected, and go on behind the block."""
        if self.collected is None or not isinstance(error, DataError):
            return False
        self.collected.append(error)
        return True

    def keeping_unknown(self, keep: bool) -> Problems:
        """Return the same, which keeps judgments of unknown documents, or does not."""
        part = copy(self)
        part.keeps_unknown = keep
        return part

    def each(self, parse: Callable[[Raw], Parsed], rows: Iterable[Raw]) -> Iterator[Parsed]:
        """Yield what each row is parsed to; a bad row is raised, or collected and left out."""
        if self.collected is None:
            yield from map(parse, rows)
            return
        for raw in rows:
            with self:
                yield parse(raw)


FIRST = Problems()
"""Raises the first problem; it holds nothing, so all readers may share it."""


class Read(NamedTuple):
    """A table that was read, with one line for each repaired, dropped or odd thing in it."""

    table: pa.Table
    notes: list[str]


def drawn(read: Read, n: int, seed: int) -> Read:
    """Return the ``n`` queries with the least SHA-256 of ``<seed>:<query id>``, in their order."""
    ids = read.table["query_id"].to_pylist()
    by_hash = sorted(ids, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    table = read.table.filter(pc.is_in(read.table["query_id"], pa.array(by_hash[:n], pa.string())))
    note = f"{table.num_rows} of {len(ids)} queries are used, drawn by seed {seed}"
    return Read(table, [*read.notes, note])


class Dataset(ABC):
    """Documents, queries and qrels of one format at one place.

    Opening one costs next to nothing; the tables are read when they are asked for, and nothing is
    kept, so a second call sees the files as they are then. ``problems`` says whether reading stops
    at the first problem. What breaks the format, an id that occurs twice, a judgment of what does
    not exist, and a table without a row raise DataError.
    """

    format: ClassVar[str]
    """Name of the format, as in ``experiment.yaml``."""

    layout: ClassVar[str]
    """What the format looks like on disk, in one phrase, for error messages."""

    root: Path
    """The folder that the names of all files are relative to."""

    @classmethod
    @abstractmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return what the layout needs, part by part, and whether it is at ``path``.

        It is judged from names and first bytes only; empty where nothing can be told from these.
        """

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether ``path`` has this layout, judged from names and first bytes only."""
        return path.is_dir() and all(cls.parts(path).values())

    @classmethod
    @abstractmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the dataset at ``path``.

        Raises:
            DataError: ``path`` lacks a part of the layout.
            UsageError: the subset does not exist, or the format has none.
        """

    @property
    def default_judge(self) -> str:
        """The unit to judge unless the experiment says otherwise: ``document`` or ``evidence``."""
        return "document"

    @property
    def default_chunking(self) -> str:
        """The chunking of an experiment that names none: ``none`` or ``recursive``."""
        return "none"

    @property
    def has_qrels(self) -> bool:
        """Whether there are labels, judged from names only; without, nothing reads qrels."""
        return True

    @abstractmethod
    def document_files(self) -> list[Path]:
        """Return the files that determine the documents, without reading them."""

    @abstractmethod
    def query_files(self) -> list[Path]:
        """Return the files that determine the queries, without reading them."""

    @abstractmethod
    def qrels_files(self) -> list[Path]:
        """Return the files that determine the qrels, besides those of documents and queries."""

    @abstractmethod
    def read_documents(self, problems: Problems = FIRST) -> Read:
        """Return the documents (``schemas.DOCUMENTS``)."""

    def document_lines(self) -> tuple[Path, Callable[..., Any]] | None:
        """Return the file of JSON lines that all documents are in, and what gives their fields.

        Each line is read by itself, so the others are not read again after an edit. None: the
        documents lie otherwise.
        """
        return None

    @abstractmethod
    def read_queries(self, problems: Problems = FIRST) -> Read:
        """Return the queries (``schemas.QUERIES``)."""

    @abstractmethod
    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        """Return the qrels (``schemas.QRELS``), each checked against the two tables."""

    @classmethod
    def require_parts(cls, path: Path, optional: Iterable[str] = ()) -> None:
        """Refuse a folder that lacks a part which is not optional.

        Raises:
            DataError: it is none, or lacks one.
        """
        if not path.is_dir():
            raise DataError(f"not {cls.layout}", file=path)
        missing = [part for part, is_there in cls.parts(path).items() if not is_there]
        if missing and set(missing) - set(optional):
            raise DataError(f"no {cls.format} folder: {', '.join(missing)} missing", file=path)

    @classmethod
    def refuse_subset(cls, path: Path, subset: str | None) -> None:
        """Refuse a subset of a format that has none.

        Raises:
            UsageError: one is asked for.
        """
        if subset is not None:
            raise UsageError(f"{path}: subset '{subset}': format {cls.format} has no subsets")
