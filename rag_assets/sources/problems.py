"""What is wrong in a file: raised at the first problem, or collected until the end.

Readers raise :class:`RowError`. They read each row inside ``with skipping_bad_rows():``. This
changes nothing unless a caller is ``collecting()``: then the problem is kept, its row is left out,
and the reader goes on. So there is one code path, whether the first problem is wanted or all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
        self.problem = problem
        self.file = file
        self.line = line
        self.key = key
        self.check = check
        self.query_id: str | None = None
        self.document_id: str | None = None
        self.evidence_id: str | None = None


@contextmanager
def error_context(
    query_id: str | None = None, document_id: str | None = None, evidence_id: str | None = None
) -> Iterator[None]:
    """Name what a row is about in every problem that is raised inside."""
    try:
        yield
    except RowError as error:
        error.query_id = query_id
        error.document_id = document_id
        error.evidence_id = evidence_id
        raise


_COLLECTED: ContextVar[list[DataError] | None] = ContextVar("collected", default=None)

RejectedIds = set[tuple[str, str]]
"""Kind (``document``, ``query``) and id of every row that was read; rejected if in no table."""

ANY = ""
"""In place of an id: the reader ended at a problem, so that nobody knows which rows there are."""

_REJECTED: ContextVar[RejectedIds | None] = ContextVar("rejected_ids", default=None)


@contextmanager
def collecting(rejected: RejectedIds | None = None) -> Iterator[list[DataError]]:
    """Let readers go on after a problem; gives the list that all problems are put into.

    What still ends a reader, such as a file that cannot be opened, is put there too. ``rejected``
    is shared by the parts of one dataset: a judgment of a row that was refused then is no unknown
    id, but ``follows`` from that problem.
    """
    problems: list[DataError] = []
    token, rejected_token = _COLLECTED.set(problems), _REJECTED.set(rejected)
    try:
        with skipping_bad_rows():
            yield problems
    finally:
        _COLLECTED.reset(token)
        _REJECTED.reset(rejected_token)


def record_id(kind: str, name: str) -> None:
    """Remember that there is a row with this id, where somebody collects."""
    rejected = _REJECTED.get()
    if rejected is not None:
        rejected.add((kind, name))


def was_rejected(kind: str, name: str) -> bool:
    """Return whether there is a row with this id; False where nobody collects."""
    rejected = _REJECTED.get()
    return rejected is not None and not rejected.isdisjoint({(kind, name), (kind, ANY)})


class _SkippingBadRows:
    """Keeps a ``DataError`` and goes on behind the block, when somebody collects."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Return whether the error was taken."""
        problems = _COLLECTED.get()
        if problems is None or not isinstance(error, DataError):
            return False
        problems.append(error)
        return True


_SKIPPING = _SkippingBadRows()


def skipping_bad_rows() -> _SkippingBadRows:
    """Return the block around one row."""
    return _SKIPPING


Raw = TypeVar("Raw")
Parsed = TypeVar("Parsed")


def parse_each(parse: Callable[[Raw], Parsed], rows: Iterable[Raw]) -> Iterator[Parsed]:
    """Yield what each row is parsed to; a bad one is skipped where somebody collects."""
    for raw in rows:
        parsed: Parsed | None = None
        with skipping_bad_rows():
            parsed = parse(raw)
        if parsed is not None:
            yield parsed
