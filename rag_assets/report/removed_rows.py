"""What goes from a store, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rag_assets.pipeline.cache_pruning import Dropped
from rag_assets.pipeline.cleaning import Item
from rag_assets.report.rows import Row


def removed_rows(found: Iterable[Item]) -> list[Row]:
    """Return a row for each experiment, kind of file and reason."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for one in found:
        groups.setdefault((one.experiment, one.kind, one.reason), []).append(one)
    return [
        {
            **{"experiment": name or None, "what": kind, "why": reason},
            **{"count": len(own), "bytes": sum(one.size for one in own)},
        }
        for (name, kind, reason), own in groups.items()
    ]


def cache_row(dropped: Sequence[Dropped], reason: str) -> list[Row]:
    """Return a row for the entries of all caches, if any go."""
    if not dropped:
        return []
    entries, size = sum(one.entries for one in dropped), sum(one.size for one in dropped)
    row: Row = {"experiment": None, "what": "cache entries", "why": reason}
    return [{**row, "count": entries, "bytes": size}]
