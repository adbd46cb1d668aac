"""What a strategy returns: for each text, the pieces that become its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

Span = tuple[int, int]
"""``[start, end)`` in characters (code points) of a text."""


class Piece(NamedTuple):
    """One chunk to be: a slice of a text, and what is known about its place.

    Attributes:
        start: first character.
        end: character after the last one.
        headings: the headings above the slice, outermost first; empty where there is none, and
            where the strategy does not look for any.
        parent: the span that is returned in place of this one; None returns the piece itself.
    """

    start: int
    end: int
    headings: tuple[str, ...] = ()
    parent: Span | None = None


Cutter = Callable[[Sequence[str]], Iterable[Sequence[Piece]]]
"""Cuts texts: gives for each of them, in the same order, its pieces; none for a blank text.

Every character that is not white space lies in a piece; no two pieces of a text have one span.
"""


def trimmed(text: str, start: int, end: int) -> Span:
    """Return the span without the white space at its ends; of length 0 when there is no more."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())
