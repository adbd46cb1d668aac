"""Sizes for people."""

from __future__ import annotations


def size_text(size: float) -> str:
    """Return ``1.2 MB``; units are powers of 1000, as disks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
