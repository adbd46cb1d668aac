"""The content caches as rows: how many entries of each kind and space, and how large."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assets.pipeline.cache_pruning import Dropped
from rag_assets.report.rows import Row
from rag_assets.store.cache_files import CacheSegment


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


def dropped_rows(dropped: Iterable[Dropped]) -> list[Row]:
    """Return a row for each kind: how many entries go, and about how many bytes."""
    groups: dict[str, list[Dropped]] = {}
    for one in dropped:
        groups.setdefault(one.segment.kind, []).append(one)
    return [
        {
            "kind": kind,
            "entries": sum(one.entries for one in own),
            "bytes": sum(one.size for one in own),
        }
        for kind, own in sorted(groups.items())
    ]
