"""What goes from a store, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rag_assets.pipeline.cache_pruning import Dropped
from rag_assets.pipeline.cleaning import Removable
from rag_assets.reporting.rows import Row


def removed_rows(found: Iterable[tuple[str, Removable]]) -> list[Row]:
    """Return a row for each experiment and kind of file."""
    groups: dict[tuple[str, str], list[Removable]] = {}
    for name, one in found:
        groups.setdefault((name, one.kind), []).append(one)
    return [
        {"experiment": name, "what": kind, "count": len(own), "bytes": sum(o.size for o in own)}
        for (name, kind), own in groups.items()
    ]


def cache_row(experiment: str, dropped: Sequence[Dropped]) -> list[Row]:
    """Return a row for the entries of all caches, if any go."""
    if not dropped:
        return []
    entries, size = sum(one.entries for one in dropped), sum(one.size for one in dropped)
    return [{"experiment": experiment, "what": "cache entries", "count": entries, "bytes": size}]
