"""How often sensors look."""

from __future__ import annotations

import os

from rag_assets.errors import UsageError

VARIABLE = "RAG_ASSETS_SENSOR_SECONDS"
DEFAULT_SECONDS = 30


def sensor_seconds() -> int:
    """Return the least time between two looks: ``RAG_ASSETS_SENSOR_SECONDS``, else 30.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    text = os.environ.get(VARIABLE) or str(DEFAULT_SECONDS)
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{VARIABLE} must be a whole number of seconds, 1 or more; found {text!r}")
    return int(text)
