"""How long work tells how far it is; the face decides whether and how that is shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Advance(Protocol):
    """Called now and then with how many units (queries, texts) are done so far, of how many."""

    def __call__(self, done: int, total: int | None = None, note: str = "", /) -> None:
        """Show it; a ``total`` replaces the one announced before, ``note`` says more."""


Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""``progress(label, total)`` opens one bar and gives its ``advance``."""


def no_progress(label: str, total: int) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return nullcontext(lambda done, total=None, note="", /: None)
