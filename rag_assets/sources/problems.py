"""What is wrong in a file: raised at the first problem, or collected until the end.

A reader is given :class:`Problems` and reads each row inside ``with problems:``. So there is one
code path, whether the first problem is wanted or all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from rag_assets.errors import DataError

FORMAT = "format"
DUPLICATE_ID = "duplicate_id"
DUPLICATE_JUDGMENT = "duplicate_judgment"
UNKNOWN_ID = "unknown_id"
ID_LEVEL = "id_level"
QUOTE_VANISHED = "quote_vanished"
QUOTE_MOVED = "quote_moved"
QUOTE_TWICE = "quote_twice"
EMPTY = "empty"
FOLLOWS = "follows"
"""A judgment of what stands in the files, but was refused there: nothing to mend where it is."""

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
        self._ids: dict[str, set[str]] = {}
        self._incomplete: set[str] = set()

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

    def next_part(self) -> Problems:
        """Return the same for the next table of a dataset, which knows the rows of this one."""
        part = copy(self)
        part.collected = [] if self.collected is not None else None
        return part

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

    def record_id(self, kind: str, row_id: str) -> None:
        """Remember that the files have a row with this id, even if it is refused afterwards."""
        if self.collected is not None:
            self._ids.setdefault(kind, set()).add(row_id)

    def record_incomplete(self, kind: str) -> None:
        """Remember that reading ended early, so that nobody knows which rows there are."""
        self._incomplete.add(kind)

    def was_rejected(self, kind: str, row_id: str) -> bool:
        """Return whether the files may have a row with this id that is in no table."""
        return kind in self._incomplete or row_id in self._ids.get(kind, ())


FIRST = Problems()
"""Raises the first problem; it holds nothing, so all readers may share it."""
