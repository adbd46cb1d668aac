"""Takes old and unused entries out of the content caches; a lost entry is computed again.

The key of a vector is the SHA-256 of a prompt and a text. Texts are those of chunks, as they are
indexed, of what was written of them, and of queries and their variants; prompts are those in the
artifacts' manifests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.chunk_table import indexed_texts
from rag_assets.pipeline.cleaning import named_by, snapshots_of
from rag_assets.pipeline.remote_sync import experiment_roots
from rag_assets.store.artifacts import read_manifest
from rag_assets.store.atomic import TABLE
from rag_assets.store.cache_files import (
    BY_TEXT,
    CacheSegment,
    cache_segments,
    keys_of,
    readable,
    write_without,
)
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.remote.mirror import mirror
from rag_assets.store.remote.removals import remove_everywhere
from rag_assets.store.segments import KEY


@dataclass(frozen=True)
class Dropped:
    """Entries of one segment that go.

    Attributes:
        segment: the file.
        rows: of each row whether it goes; None: the whole file.
    """

    segment: CacheSegment
    rows: pa.BooleanArray | None = None

    @property
    def entries(self) -> int:
        """How many entries go."""
        if self.rows is None:
            return max(self.segment.entries, 0)
        return int(pc.sum(self.rows).as_py() or 0)

    @property
    def size(self) -> int:
        """About how many bytes that frees."""
        whole = max(self.segment.entries, 1)
        return round(self.segment.size * (1 if self.rows is None else self.entries / whole))


def to_prune(
    store: Path, older_than: timedelta | None, *, unused: bool, now: datetime | None = None
) -> list[Dropped]:
    """Return what goes: entries for which all that is asked holds.

    Args:
        store: the store.
        older_than: only entries written longer ago; None: of any age.
        unused: only vectors of texts that no snapshot's chunks or queries are.
        now: the present, in UTC.

    Raises:
        StoreError: a snapshot cannot be read, so it is not known what is used.
    """
    segments: Sequence[CacheSegment] = cache_segments(store)
    if older_than is not None:
        limit = (now or datetime.now(UTC)) - older_than
        segments = [segment for segment in segments if segment.written < limit]
    if not unused:
        return [Dropped(segment) for segment in segments]
    used = _used_keys(store)
    vectors = [segment for segment in segments if segment.kind in BY_TEXT]
    drops = [Dropped(one, pc.invert(pc.is_in(keys_of(one), used))) for one in readable(vectors)]
    return [dropped for dropped in drops if dropped.entries]


def prune(store: Path, dropped: Sequence[Dropped]) -> None:
    """Take entries out; what takes the place of a segment is there before that one goes.

    Raises:
        StoreError: the store cannot be written.
    """
    for one in dropped:
        if one.rows is not None and one.entries < one.segment.entries:
            mirror(write_without(one.segment, one.rows))
    remove_everywhere(store, [one.segment.path for one in dropped])


def _used_keys(store: Path) -> pa.Array:
    """Return the keys of all vectors that the snapshots of a store may need."""
    texts: set[str] = set()
    prompts = {""}
    named = named_by({root: snapshots_of(root) for root in experiment_roots(store)})
    paths = {(entry.asset, store / entry.path) for own in named.values() for entry in own}
    for asset, path in sorted(paths):
        if path.exists():
            texts.update(_texts(asset, path / TABLE))
            prompts.update(prompts_in(path))
    return vector_keys(texts, prompts)


def vector_keys(texts: Iterable[str], prompts: Iterable[str]) -> pa.Array:
    """Return the key of every text with every prompt."""
    both = list(prompts)
    keys = {hashlib.sha256((p + text).encode()).digest() for text in texts for p in both}
    return pa.array(sorted(keys), KEY)


def chunk_texts(chunks: pa.Table) -> set[str]:
    """Return the texts of chunks, in each form in which one may be embedded."""
    plain = set(chunks.column("text").to_pylist())
    return plain.union(indexed_texts(chunks), indexed_texts(chunks, headings=True))


def prompts_in(path: Path) -> Iterator[str]:
    """Yield the prompts that the manifest of an artifact names."""
    manifest = read_manifest(path)
    if manifest is not None:
        yield from _prompts(manifest.config)


def _prompts(config: Mapping[str, object]) -> Iterator[str]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _prompts(value)
        elif name.endswith("prompt") and isinstance(value, str):
            yield value


def _texts(asset: str, path: Path) -> set[str]:
    match asset:
        case "chunks":
            return chunk_texts(read_parquet(path))
        case "queries" | "query_sets" | "index_texts":
            column = read_parquet(path, ["text"]).column("text")
            return set(column.to_pylist())
        case _:
            return set()
