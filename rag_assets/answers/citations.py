"""Markers of cited units in an answer: ``[2]`` or ``[1, 3]``, numbers of the context's units.

The whole content of a pair of brackets must be numbers of one to three digits with commas between,
so neither ``[2019]`` nor ``[1-3]`` nor ``[page 4]`` is a marker; nor is the link ``[1](address)``.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_MARKER = re.compile(r"\[\s*([0-9]{1,3}(?:\s*,\s*[0-9]{1,3})*)\s*\](?!\()")


def cited_units(text: str) -> list[int]:
    """Return the different numbers that the markers of a text hold, in order.

    They are as they stand: also 0 and numbers of units that there are not.
    """
    return list(dict.fromkeys(n for marker in _MARKER.finditer(text) for n in _numbers(marker)))


def without_markers(text: str, cited: Collection[int]) -> str:
    """Return a text without its markers of ``cited`` units; other brackets are words of it."""
    return _MARKER.sub(lambda m: " " if set(_numbers(m)) <= set(cited) else m[0], text)


def _numbers(marker: re.Match[str]) -> list[int]:
    return [int(number) for number in marker[1].split(",")]
