"""Strict JSON at the speed of a compiled parser, for files of many lines.

msgspec parses; whatever it refuses, and whatever could break a rule that it does not know, goes to
the strict parser, which alone decides and words the error. Both accept the same texts with the
same values.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rag_assets.sources.strict_json import MAX_DEPTH

_decode = msgspec.json.Decoder().decode


def parse_object(raw: bytes) -> dict[str, Any] | None:
    """Return the object of one line; None when the strict parser has to look at it.

    A repeated key is seen by counting: every colon of the line belongs to a key or stands inside
    a string, so the colons of the parsed keys and strings, and one for each key, must add up. A
    key that was dropped leaves some over. Lines with an escaped colon go to the strict parser.
    """
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return None
    if type(value) is not dict or (b"\\" in raw and b"\\u003" in raw):
        return None
    try:
        return value if raw.count(b":") == _colons(value, MAX_DEPTH) else None
    except _TooDeepError:
        return None


class _TooDeepError(ValueError):
    """The value nests deeper than strict JSON may."""


def _colons(fields: dict[str, Any], depth: int) -> int:
    """Return the colons that a line of these fields must have."""
    found = len(fields)
    for key, value in fields.items():
        if ":" in key:
            found += key.count(":")
        kind = type(value)
        if kind is str:
            found += value.count(":")
        elif kind is dict or kind is list:
            found += _colons_within(value, depth - 1)
    return found


def _colons_within(value: object, depth: int) -> int:
    if isinstance(value, str):
        return value.count(":")
    if not isinstance(value, (dict, list)):
        return 0
    if depth <= 0:
        raise _TooDeepError
    if isinstance(value, dict):
        return _colons(value, depth)
    return sum(_colons_within(item, depth - 1) for item in value)
