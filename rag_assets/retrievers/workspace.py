"""What a retriever is given besides its options and its data: caches, and ways to show progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rag_assets.compute.compute import Compute
from rag_assets.compute.local import LOCAL
from rag_assets.progress import Progress, no_progress


class Measure(Protocol):
    """Keeps how long ``amount`` units (texts, requests) of an artifact took, and what they cost."""

    def __call__(
        self,
        what: str,
        seconds: float | None,
        amount: int,
        *,
        cached: bool,
        tokens: int | None = None,
        cost: float | None = None,
    ) -> None:
        """Keep it.

        Args:
            what: ``embed`` or ``ask``, see :mod:`rag_assets.pipeline.measurements`.
            seconds: of wall time.
            amount: how many.
            cached: they were known beforehand and took no time of their own.
            tokens: as an API counted them; None where none told.
            cost: money for them, in the unit of the prices; None without prices.
        """


def unmeasured(
    what: str,
    seconds: float | None,
    amount: int,
    *,
    cached: bool,
    tokens: int | None = None,
    cost: float | None = None,
) -> None:
    """Keep nothing."""


class Summed:
    """A measure that adds up what it is told of new and of known things."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seconds = 0.0
        self.new = self.known = 0
        self.tokens: int | None = None
        self.cost: float | None = None

    def __call__(
        self,
        what: str,
        seconds: float | None,
        amount: int,
        *,
        cached: bool,
        tokens: int | None = None,
        cost: float | None = None,
    ) -> None:
        """Add a measurement."""
        self.seconds += seconds or 0.0
        self.new, self.known = self.new + amount * (not cached), self.known + amount * cached
        self.tokens = tokens if self.tokens is None else self.tokens + (tokens or 0)
        self.cost = cost if self.cost is None else self.cost + (cost or 0.0)

    def and_then(self, measure: Measure) -> Measure:
        """Return a measure for what follows, in which the new ones from before are new too."""

        def both(
            what: str,
            seconds: float | None,
            amount: int,
            *,
            cached: bool,
            tokens: int | None = None,
            cost: float | None = None,
        ) -> None:
            if cached:
                measure(what, seconds, max(amount - self.new, 0), cached=True)
                return
            self(what, seconds, amount, cached=False, tokens=tokens, cost=cost)
            new, self.new = self.new, self.new - amount
            measure(what, self.seconds, new, cached=False, tokens=self.tokens, cost=self.cost)

        return both


@dataclass(frozen=True)
class Workspace:
    """The surroundings of one retriever while it indexes, encodes, searches or reranks.

    Attributes:
        cache: folder of all content caches; each kind has a folder of its own in it. None
            remembers nothing.
        progress: ``progress(label, total)`` opens a progress bar.
        measure: keeps what something took.
        compute: where models are run.
    """

    cache: Path | None = None
    progress: Progress = no_progress
    measure: Measure = unmeasured
    compute: Compute = LOCAL

    def cache_of(self, kind: str) -> Path | None:
        """Return the folder of one kind of cached things, such as ``embeddings``."""
        return self.cache / kind if self.cache is not None else None


ALONE = Workspace()
"""No surroundings: nothing is remembered or shown, and models are run in this process."""
