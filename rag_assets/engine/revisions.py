"""The revisions that evaluations asked searches for: what cannot be seen is asked, and kept here.

A fingerprint needs the revision, and looking must not ask anybody. So an evaluation asks once, at
its beginning, and writes down the answer, a small file a search; plans, sensors and automation read
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_assets.store.canonical import fingerprint
from rag_assets.store.remote.mirror import write_shared


class Revisions:
    """The revisions that are known to an experiment, by the options of the search."""

    def __init__(self, folder: Path) -> None:
        """Use ``folder``; it is created when the first revision is kept."""
        self._folder = folder

    def of(self, search: Mapping[str, Any]) -> str:
        """Return the last answer; empty: nobody asked yet."""
        try:
            return self._file(search).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def keep(self, search: Mapping[str, Any], revision: str) -> None:
        """Keep an answer in place of the last one.

        Raises:
            StoreError: the folder cannot be written.
        """
        write_shared(self._file(search), revision, lambda _: revision)

    def _file(self, search: Mapping[str, Any]) -> Path:
        return self._folder / f"{fingerprint([search])}.txt"
