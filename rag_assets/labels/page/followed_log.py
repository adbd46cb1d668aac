"""A log that several people write to by way of a page: who reads what, and what is a repetition.

The log is the only memory. A thing is shown to one person at a time. What a request writes carries
the time at which the key was pressed; the same person and time again is the same request, sent
again because no answer came, and writes nothing. What somebody else answered meanwhile is refused,
so that no answer is lost or counted twice.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from rag_assets.errors import UsageError
from rag_assets.labels.append_log import Line, append_lines, read_log
from rag_assets.store.locks import locked

HELD_SECONDS = 1800.0
"""After so long without an answer a thing is shown to somebody else."""

Thing = TypeVar("Thing", bound=Hashable)
"""What is shown to one person at a time."""


class AnsweredMeanwhile(UsageError):
    """Somebody else answered while it was read."""


class FollowedLog(ABC, Generic[Line, Thing]):
    """A log as far as it was read, and what each person has before them.

    Args:
        file: the log.
        kind: of its lines.
        lock_file: locked by whoever writes.
    """

    def __init__(self, file: Path, kind: type[Line], lock_file: Path) -> None:
        self._file, self._kind, self._lock_file = file, kind, lock_file
        self._lock = Lock()
        self._held: dict[str, tuple[Thing, float]] = {}
        self._undone: set[tuple[str | None, str | None]] = set()
        self._size = -1

    @contextmanager
    def _following(self) -> Iterator[None]:
        """Hold the state, with all that other processes wrote."""
        with self._lock:
            self._follow()
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the state and the file."""
        with self._lock, locked(self._lock_file):
            self._follow()
            yield

    def _follow(self) -> None:
        size = self._file.stat().st_size if self._file.is_file() else 0
        if size != self._size:
            self._lines: list[Line] = []
            self._last: dict[Hashable, Line] = {}
            self._n_lines: Counter[Hashable] = Counter()
            self._handled = set(self._undone)
            lines = read_log(self._file, self._kind)
            self._restart(lines)
            for line in lines:
                self._apply(line)
            self._size = size

    def _restart(self, lines: list[Line]) -> None:
        """Forget what was made of the lines; these come again."""

    @abstractmethod
    def _apply(self, line: Line) -> None:
        """Take a line in."""

    def _count(self, key: Hashable, line: Line, by: str | None, at: str | None) -> None:
        self._last[key] = line
        self._n_lines[key] += 1
        self._handled.add((by, at))

    def _write(self, line: Line) -> None:
        append_lines(self._file, [line])
        self._apply(line)
        self._size = self._file.stat().st_size

    def _hold(self, by: str, thing: Thing) -> None:
        self._held[by] = (thing, time.monotonic())

    def _held_by(self, by: str) -> Thing | None:
        return self._held[by][0] if by in self._held else None

    def _held_by_others(self, by: str) -> set[Thing]:
        now = time.monotonic()
        return {
            thing
            for name, (thing, since) in self._held.items()
            if name != by and now - since < HELD_SECONDS
        }

    def next_task(self, by: str) -> dict[str, Any]:
        """Return what a person is to read, and how far everybody is."""
        with self._following():
            return self._task(by)

    def _task(self, by: str) -> dict[str, Any]:
        thing = self._choice(by)
        if thing is None:
            self._held.pop(by, None)
            return {"task": None, "progress": self._progress()}
        self._hold(by, thing)
        return {"task": self._shown(thing), "progress": self._progress()}

    @abstractmethod
    def _choice(self, by: str) -> Thing | None:
        """Return what a person has, or what comes next and nobody has."""

    @abstractmethod
    def _shown(self, thing: Thing) -> dict[str, Any]:
        """Return a thing as the page shows it."""

    @abstractmethod
    def _progress(self) -> dict[str, Any]:
        """Return how far everybody is."""
