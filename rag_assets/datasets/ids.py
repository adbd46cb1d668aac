"""Ids that must be unique, and ids that must exist."""

from __future__ import annotations

from difflib import get_close_matches

import pyarrow as pa

from rag_assets.datasets.fields import Place, shown

NEAREST_AMONG = 20_000
"""Above so many ids no nearest one is looked for: comparing takes seconds."""


class UniqueIds:
    """The ids met so far, each with its line."""

    def __init__(self, kind: str, key: str) -> None:
        """Watch over ids of ``kind`` (``document``, ``query``) that stand under ``key``."""
        self._kind = kind
        self._key = key
        self._lines: dict[str, int] = {}

    def __len__(self) -> int:
        """Return how many ids there are."""
        return len(self._lines)

    def add(self, found: str, place: Place) -> None:
        """Remember an id.

        Raises:
            DataError: it has been there before; both lines are named.
        """
        line = place.line or 0
        first = self._lines.setdefault(found, line)
        if first != line:
            raise place.error(
                f"{self._kind} id {shown(found)} occurs twice, first on line {first}", self._key
            )


class KnownIds:
    """The ids of a table, with their rows."""

    def __init__(self, kind: str, ids: pa.ChunkedArray) -> None:
        """Know the ``ids`` of ``kind`` (``document``, ``query``)."""
        self._kind = kind
        self._rows = {found: row for row, found in enumerate(ids.to_pylist())}

    def __contains__(self, found: object) -> bool:
        """Return whether the id exists."""
        return found in self._rows

    def row(self, wanted: str, place: Place, key: str) -> int:
        """Return the row of an id.

        Raises:
            DataError: it does not exist; the nearest one is named.
        """
        row = self._rows.get(wanted)
        if row is None:
            raise place.error(f"unknown {self._kind} {shown(wanted)}{self._nearest(wanted)}", key)
        return row

    def _nearest(self, wanted: str) -> str:
        if len(self._rows) > NEAREST_AMONG:
            return ""
        deeper = [found for found in self._rows if found.endswith(f"/{wanted}")]
        near = deeper or get_close_matches(wanted, self._rows, n=1)
        return f" (did you mean {shown(near[0])}?)" if near else ""
