"""How long to wait before a request is sent again."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, None without a valid one.

    It holds seconds or a date (RFC 9110, section 10.2.3).

    Args:
        headers: of the response; looked up as ``retry-after``.
        now: seconds since the epoch, for a header that holds a date; default: the clock's.
    """
    value = (headers.get("retry-after") or "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value, time.time() if now is None else now)
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def wait_before(attempt: int, asked: float | None, base: float, longest: float) -> float | None:
    """Return the seconds to wait before retry number ``attempt`` (from 0); None: give up.

    Exponential: ``base * 2^attempt``, at most ``longest``; never less than what the server asked
    for, and no retry at all when that is more than ``longest``.
    """
    if asked is not None and asked > longest:
        return None
    return max(min(base * 2.0 ** min(attempt, 60), longest), asked or 0.0)


def _until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return math.nan
