"""What a store holds in its caches, and what is removed from it, as rows."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assets.pipeline.cleaning import Item
from rag_assets.report.formats import Row
from rag_assets.store.content_cache import CacheSegment


def cache_rows(segments: Iterable[CacheSegment]) -> list[Row]:
    """Return a row for each kind and space."""
    groups: dict[tuple[str, str], list[CacheSegment]] = {}
    for segment in segments:
        groups.setdefault((segment.kind, segment.space), []).append(segment)
    return [
        {
            "kind": kind,
            "space": space,
            "entries": sum(max(one.entries, 0) for one in own),
            "segments": len(own),
            "unreadable": sum(one.entries < 0 for one in own),
            "bytes": sum(one.size for one in own),
            "oldest": min(one.written for one in own).isoformat(timespec="seconds"),
            "newest": max(one.written for one in own).isoformat(timespec="seconds"),
        }
        for (kind, space), own in sorted(groups.items())
    ]


def removed_rows(items: Iterable[Item]) -> list[Row]:
    """Return a row for each experiment, kind of file and reason."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for one in items:
        groups.setdefault((one.experiment, one.kind, one.reason), []).append(one)
    return [
        {
            **{"experiment": name or None, "what": kind, "why": reason},
            **{"count": len(own), "bytes": sum(one.size for one in own)},
        }
        for (name, kind, reason), own in groups.items()
    ]
