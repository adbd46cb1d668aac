"""What is wrong in a file: raised at the first problem, or collected until the end.

Readers raise :class:`RowError`. They read each row inside ``with tolerated():``, which changes
nothing unless a caller is ``collecting()``: then the problem is kept, its row is left out, and the
reader goes on. So there is one code path, whether the first problem is wanted or all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType

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
def about(
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

Met = set[tuple[str, str]]
"""Kind (``document``, ``query``) and id of every row that was read, sound or not."""

ANY = ""
"""In place of an id: the reader ended at a problem, so that nobody knows which rows there are."""

_MET: ContextVar[Met | None] = ContextVar("met", default=None)


@contextmanager
def collecting(met: Met | None = None) -> Iterator[list[DataError]]:
    """Let readers go on after a problem; gives the list that all problems are put into.

    What still ends a reader, such as a file that cannot be opened, is put there too. ``met`` is
    shared by the parts of one dataset: a judgment of a row that was refused then is no unknown id,
    but ``follows`` from that problem.
    """
    problems: list[DataError] = []
    token, met_token = _COLLECTED.set(problems), _MET.set(met)
    try:
        with tolerated():
            yield problems
    finally:
        _COLLECTED.reset(token)
        _MET.reset(met_token)


def meet(kind: str, name: str) -> None:
    """Remember that there is a row with this id, where somebody collects."""
    met = _MET.get()
    if met is not None:
        met.add((kind, name))


def was_met(kind: str, name: str) -> bool:
    """Return whether there is a row with this id; False where nobody collects."""
    met = _MET.get()
    return met is not None and not met.isdisjoint({(kind, name), (kind, ANY)})


class _Tolerated:
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
        if not isinstance(error, DataError):
            return False
        problems = _COLLECTED.get()
        if problems is None:
            return False
        problems.append(error)
        return True


_TOLERATED = _Tolerated()


def tolerated() -> _Tolerated:
    """Return the block around one row."""
    return _TOLERATED
