"""Keeps what a retriever measures."""

from __future__ import annotations

from typing import NamedTuple


class Told(NamedTuple):
    """One measurement; see :class:`rag_assets.retrievers.workspace.Measure`."""

    what: str
    amount: int
    cached: bool
    timed: bool
    tokens: int | None
    cost: float | None


class Measured:
    """What was measured, in its order."""

    def __init__(self) -> None:
        self.told: list[Told] = []

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
        self.told.append(Told(what, amount, cached, seconds is not None, tokens, cost))
