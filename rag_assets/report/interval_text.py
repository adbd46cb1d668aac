"""Intervals of means and of differences as text."""

from __future__ import annotations

from typing import Any


def interval_name(confidence: float) -> str:
    """Return ``95 % interval``."""
    return f"{100 * confidence:g} % interval"


def interval_text(row: dict[str, Any]) -> str:
    """Return the bounds of a row, in brackets; a dash where there are none."""
    if row["low"] is None:
        return "-"
    return f"[{row['low']:.4f}, {row['high']:.4f}]"
