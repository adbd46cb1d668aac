"""Takes old and unused entries out of the content caches; a lost entry is computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.pipeline.cache_keys import experiment_roots, used_keys
from rag_assets.store.atomic import remove
from rag_assets.store.cache_files import (
    BY_TEXT,
    CacheSegment,
    cache_segments,
    keys_of,
    readable,
    without,
)


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
    used = used_keys(experiment_roots(store))
    vectors = [segment for segment in segments if segment.kind in BY_TEXT]
    found = [Dropped(one, pc.invert(pc.is_in(keys_of(one), used))) for one in readable(vectors)]
    return [dropped for dropped in found if dropped.entries]


def prune(dropped: Sequence[Dropped]) -> None:
    """Take entries out.

    Raises:
        StoreError: the store cannot be written.
    """
    for one in dropped:
        if one.rows is None:
            remove(one.segment.path)
        else:
            without(one.segment, one.rows)
