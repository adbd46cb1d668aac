"""Ids that must be unique, and ids that must exist."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from rag_assets.sources.fields import Place, shown
from rag_assets.sources.id_level import IdLevels
from rag_assets.sources.nested import full_key
from rag_assets.sources.problems import (
    DUPLICATE_ID,
    FOLLOWS,
    ID_LEVEL,
    UNKNOWN_ID,
    meet,
    was_met,
)

NEAREST_AMONG = 20_000
"""Above so many ids no nearest one is looked for: comparing takes seconds."""

_LINES_OF_A_FILE = 2**40

NEAREST_FOR = 20
"""For so many unknown ids the nearest one is looked for."""


class UniqueIds:
    """The ids met so far, each with its file and line, in little memory."""

    def __init__(self, kind: str, key: str) -> None:
        """Watch over ids of ``kind`` (``document``, ``query``) that stand under ``key``."""
        self._kind = kind
        self._key = key
        self._files: dict[Path, int] = {}
        self._lines: dict[str, int] = {}

    def __len__(self) -> int:
        """Return how many ids there are."""
        return len(self._lines)

    def add(self, found: str, place: Place) -> None:
        """Remember an id.

        Raises:
            DataError: it has been there before; both lines are named.
        """
        meet(self._kind, found)
        number = self._files.setdefault(place.file, len(self._files))
        where = number * _LINES_OF_A_FILE + (place.line or 0)
        first = self._lines.setdefault(found, where)
        if first != where:
            problem = (
                f"{self._kind} id {shown(found)} occurs twice, first {self._told(first, number)}"
            )
            raise place.error(problem, self._key, DUPLICATE_ID)

    def _told(self, where: int, here: int) -> str:
        number, line = divmod(where, _LINES_OF_A_FILE)
        file = next(file for file, own in self._files.items() if own == number)
        return f"on line {line}" if number == here else f"on line {line} of {file.name}"


class UniquePlaces:
    """The ids met so far, each with its place: for several files, and for files without lines."""

    def __init__(self, kind: str) -> None:
        """Watch over ids of ``kind`` (``document``, ``query``)."""
        self._kind = kind
        self._places: dict[str, tuple[Place, str]] = {}

    def add(self, found: str, place: Place, key: str) -> None:
        """Remember an id that stands under ``key``.

        Raises:
            DataError: it has been there before; both places are named.
        """
        meet(self._kind, found)
        if found not in self._places:
            self._places[found] = (place, key)
            return
        first, first_key = self._places[found]
        where = f"`{full_key(first, first_key)}`" if first.line is None else f"line {first.line}"
        if first.file != place.file:
            where += f" of {first.file.name}"
        problem = f"{self._kind} id {shown(found)} occurs twice, first at {where}"
        raise place.error(problem, key, DUPLICATE_ID)


class KnownIds:
    """The ids of a table, with their rows."""

    def __init__(self, kind: str, ids: pa.ChunkedArray, remedy: str = "") -> None:
        """Know the ``ids`` of ``kind`` (``document``, ``query``).

        ``remedy`` is said once, of the first that is unknown: what to do with all of them.
        """
        self._kind = kind
        self._remedy = remedy
        self._rows = {found: row for row, found in enumerate(ids.to_pylist())}
        self._unknown = 0

    def __contains__(self, found: object) -> bool:
        """Return whether the id exists."""
        return found in self._rows

    def row(self, wanted: str, place: Place, key: str) -> int:
        """Return the row of an id.

        Raises:
            DataError: it does not exist; the nearest one is named.
        """
        row = self._rows.get(wanted)
        if row is None and was_met(self._kind, wanted):
            problem = f"{self._kind} {shown(wanted)} is refused where it stands"
            raise place.error(problem, key, FOLLOWS)
        if row is None:
            check, problem = self.explain(wanted)
            raise place.error(problem, key, check)
        return row

    def explain(self, unknown: str) -> tuple[str, str]:
        """Return the kind of problem that an unknown id is, and a sentence about it."""
        problem = f"unknown {self._kind} {shown(unknown)}"
        meant = self._levels.meant(unknown) if self._kind == "document" else None
        if meant is not None:
            return ID_LEVEL, f"{problem}: it is {meant.level}; probably meant: " + shown(
                meant.document_id
            )
        problem += self._nearest(unknown)
        if self._unknown == 1 and self._remedy:
            problem += f"; {self._remedy}"
        return UNKNOWN_ID, problem

    @cached_property
    def _levels(self) -> IdLevels:
        return IdLevels(self._rows)

    def _nearest(self, wanted: str) -> str:
        self._unknown += 1
        if len(self._rows) > NEAREST_AMONG or self._unknown > NEAREST_FOR:
            return ""
        deeper = [found for found in self._rows if found.endswith(f"/{wanted}")]
        near = deeper or get_close_matches(wanted, self._rows, n=1)
        return f" (did you mean {shown(near[0])}?)" if near else ""
