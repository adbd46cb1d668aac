"""What a page holds as data: JSON of which no character ends its block, and texts that are cut."""

from __future__ import annotations

import json

from markupsafe import Markup

ID_CHARACTERS = 160
"""Longer ids, titles and tags are cut."""

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def escaped_json(value: object) -> str:
    """Return compact JSON in which ``<``, ``>``, ``&`` and the line separators are escaped.

    A lone surrogate, which no UTF-8 file can hold, is escaped too.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.translate(_ESCAPES)


def json_block(value: object) -> Markup:
    """Return :func:`escaped_json` for a template, which must not escape it again."""
    return Markup(escaped_json(value))


def shortened(text: str, characters: int = ID_CHARACTERS) -> str:
    """Return the text, cut behind so many characters, with dots for the rest."""
    return text if len(text) <= characters else f"{text[:characters]}..."


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number that takes few characters; None where there is none."""
    return None if value is None else round(value, digits)
