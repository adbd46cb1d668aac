"""JSON inside a page: no character of it can end the block, or start a tag."""

from __future__ import annotations

import json

from markupsafe import Markup

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
