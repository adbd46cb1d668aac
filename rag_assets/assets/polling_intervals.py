"""How often sensors look, and when a server is asked again."""

from __future__ import annotations

import os

from rag_assets.errors import UsageError

VARIABLE = "RAG_ASSETS_SENSOR_SECONDS"
DEFAULT_SECONDS = 30

RETRY_VARIABLE = "RAG_ASSETS_RETRY_SECONDS"
DEFAULT_RETRY_SECONDS = 60


def sensor_seconds() -> int:
    """Return the least time between two looks: ``RAG_ASSETS_SENSOR_SECONDS``, else 30.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    return _seconds(VARIABLE, DEFAULT_SECONDS)


def retry_seconds() -> int:
    """Return the wait before the first retry: ``RAG_ASSETS_RETRY_SECONDS``, else 60.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    return _seconds(RETRY_VARIABLE, DEFAULT_RETRY_SECONDS)


def _seconds(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{variable} must be a whole number of seconds, 1 or more; found {text!r}")
    return int(text)
