"""Timings, kept apart from results: they never enter a digest.

One small JSON file for each measured thing, named by the fingerprint of what was computed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from rag_assets.store.atomic import write_text


class Measurement(TypedDict):
    """Seconds of wall time for ``amount`` units (queries, partitions) of one artifact."""

    what: str
    fingerprint: str
    seconds: float
    amount: int


class Measurements:
    """The measurements of one experiment."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, created on the first write."""
        self.folder = folder

    def add(self, what: str, fingerprint: str, seconds: float, amount: int = 1) -> None:
        """Keep one measurement; a newer one of the same thing replaces it."""
        row = Measurement(what=what, fingerprint=fingerprint, seconds=seconds, amount=amount)
        write_text(self.folder / what / f"{fingerprint[:16]}.json", json.dumps(row))

    def find(self, what: str, fingerprint: str) -> Measurement | None:
        """Return the measurement of one thing, if there is one."""
        try:
            text = (self.folder / what / f"{fingerprint[:16]}.json").read_text(encoding="utf-8")
        except OSError:
            return None
        row: Measurement = json.loads(text)
        return row

    def all(self) -> Iterator[Measurement]:
        """Yield everything that was measured."""
        for file in sorted(self.folder.glob("*/*.json")):
            row: Measurement = json.loads(file.read_text(encoding="utf-8"))
            yield row
