"""The content caches as files: how large they are, and how entries are taken out of them.

Each kind of cached things (``embeddings``, ``completions``, ...) has a folder of segments, or a
folder of segments for each space, see :mod:`rag_assets.store.segments`. A segment is never changed:
where entries are taken out, a new one without them takes its place.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.store.atomic import TEMPORARY_MARK, atomic_file
from rag_assets.store.parquet_files import read_parquet

CACHE = "cache"
"""The folder of all content caches in the store."""

VECTORS = ("embeddings", "token_vectors")
"""Kinds that compress no further."""

BY_TEXT = (*VECTORS, "sparse_embeddings", "token_counts")
"""Kinds whose keys are hashes of texts alone, so that it can be said which texts they are of."""

COMPLETIONS = "completions"


@dataclass(frozen=True)
class CacheSegment:
    """One file of a cache.

    Attributes:
        path: where it lies.
        kind: what it holds, such as ``embeddings``.
        space: the folder of everything that determines an entry but the text; empty: none.
        entries: rows; -1: it cannot be read.
        size: bytes on disk.
        written: when.
    """

    path: Path
    kind: str
    space: str
    entries: int
    size: int
    written: datetime


def cache_segments(store: Path) -> list[CacheSegment]:
    """Return all segments of all caches of a store, by kind, space and age."""
    root = store / CACHE
    segments = [_segment(root, path) for path in sorted(root.rglob("*.parquet"))]
    return [segment for segment in segments if segment is not None]


def write_without(segment: CacheSegment, dropped: pa.BooleanArray) -> Path:
    """Write a segment without some rows beside one, and return where it lies.

    Args:
        segment: the one to replace.
        dropped: of each row whether it goes.

    Raises:
        StoreError: the store cannot be written.
    """
    kept = read_parquet(segment.path).filter(pc.invert(dropped))
    # The time at the beginning of the name decides which of two equal keys is read.
    stamp = segment.path.name.partition("-")[0]
    path = segment.path.with_name(f"{stamp}-{uuid.uuid4().hex[:12]}.parquet")
    with atomic_file(path) as temporary:
        pq.write_table(
            kept,
            temporary,
            write_page_checksum=True,
            write_statistics=False,
            use_dictionary=segment.kind not in BY_TEXT,
            compression="none" if segment.kind in VECTORS else "zstd",
        )
    return path


def keys_of(segment: CacheSegment) -> pa.Array:
    """Return the keys of a segment, in the order of its rows."""
    column = read_parquet(segment.path, ["key"]).column("key")
    return column.combine_chunks()


def _segment(root: Path, path: Path) -> CacheSegment | None:
    if TEMPORARY_MARK in path.name:
        return None
    kind, *spaces = path.relative_to(root).parent.parts
    try:
        status = path.stat()
    except FileNotFoundError:
        return None  # gone since it was listed
    stamp = path.name.partition("-")[0]
    seconds = int(stamp) / 1e9 if stamp.isdecimal() else status.st_mtime
    return CacheSegment(
        path=path,
        kind=kind,
        space="/".join(spaces),
        entries=_rows(path),
        size=status.st_size,
        written=datetime.fromtimestamp(seconds, UTC),
    )


def _rows(path: Path) -> int:
    try:
        rows: int = pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowException):
        return -1
    return rows


def readable(segments: list[CacheSegment]) -> Iterator[CacheSegment]:
    """Yield the segments that can be read."""
    return (segment for segment in segments if segment.entries >= 0)
