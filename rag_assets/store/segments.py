"""Rows by content key, in a folder of immutable Parquet segments that several processes may share.

A segment's name is its own and begins with the time, so writers never meet; where two segments
hold the same key the older one wins, so what is read does not change later. What cannot be read
is left out with a warning: a cache that lost a row only computes it again.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.store.atomic import atomic_file
from rag_assets.store.remote.mirror import working_copy_of

KEY = pa.binary(32)
"""Keys are SHA-256 digests."""

_KEYS = pa.schema([pa.field("key", KEY, False)])

Positions = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)


def text_keys(texts: Sequence[str]) -> pa.Array:
    """Return the keys of texts, in their order."""
    width = KEY.byte_width
    # Not a list of them, which takes three times as much.
    digests = bytearray(width * len(texts))
    for number, text in enumerate(texts):
        start = number * width
        digests[start : start + width] = hashlib.sha256(text.encode()).digest()
    return pa.Array.from_buffers(KEY, len(texts), [None, pa.py_buffer(digests)])


def same_types(expected: pa.Schema) -> Callable[[pa.Schema], None]:
    """Return what raises ValueError for a file whose columns are not of the expected types."""

    def check(schema: pa.Schema) -> None:
        for field in expected:
            if schema.field(field.name).type != field.type:
                raise ValueError(f"column {field.name} is {schema.field(field.name).type}")

    return check


class Found(NamedTuple):
    """What one segment knows: key ``asked[i]`` of those looked up is row ``rows[i]`` of it."""

    asked: Positions
    values: pa.Table
    rows: Positions


@dataclass(frozen=True)
class _Segment:
    path: Path
    keys: pa.Array


class Segments:
    """The segments of one folder; the columns beside ``key`` are the caller's."""

    def __init__(
        self,
        folder: Path,
        columns: Sequence[str],
        check: Callable[[pa.Schema], None],
        name: str,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Use ``folder``; it is created by the first ``add``.

        Args:
            folder: where the segments lie.
            columns: the columns that ``find`` gives.
            check: raises ValueError for a file whose ``columns`` have other types.
            name: what the warnings call it.
            options: for ``pyarrow.parquet.write_table``.
        """
        self.folder = folder
        self._columns = list(columns)
        self._check = check
        self._name = name
        self._options = dict(options or {})
        self._segments: list[_Segment] = []
        self._refused: set[Path] = set()
        self._keys: pa.Array = pa.array([], KEY)
        self._copy = working_copy_of(folder)
        self._is_brought = False

    def find(self, keys: pa.Array) -> Iterator[Found]:
        """Look keys up, one segment at a time; those that are not given are not known."""
        self._refresh()
        pending = np.arange(len(keys), dtype=np.int64)
        while pending.size:
            is_all = pending.size == len(keys)  # which are not copied
            places = self._places(keys if is_all else keys.take(pa.array(pending)))
            pending, places = pending[places >= 0], places[places >= 0]
            damaged = []
            for segment, at, rows in _by_segment(self._segments, places):
                values = self._read(segment.path, self._columns)
                if values is None or values.num_rows != len(segment.keys):
                    self._refuse(segment.path)
                    damaged.append(pending[at])
                else:
                    yield Found(pending[at], values, rows)
            pending = np.concatenate([np.empty(0, np.int64), *damaged])

    def unknown(self, keys: pa.Array) -> Positions:
        """Return the positions of the keys that no segment holds."""
        self._refresh()
        return np.flatnonzero(self._places(keys) < 0)

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield these columns of every segment, by age; those of an older version may lack some."""
        self._refresh()
        for segment in list(self._segments):
            table = self._read(segment.path, list(columns))
            if table is not None:
                yield table

    def add(self, table: pa.Table) -> None:
        """Write a segment: a column ``key``, of whose equal values the first wins, and the others.

        Raises:
            StoreError: the folder cannot be written.
        """
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.parquet"
        with atomic_file(self.folder / name) as temporary:
            pq.write_table(table, temporary, write_page_checksum=True, **self._options)
        if self._copy is not None:
            self._copy.note(self.folder / name)

    def _refresh(self) -> None:
        """Read the keys of segments that appeared, and forget those that are gone."""
        if self._copy is not None and not self._is_brought:
            self._copy.bring(self._copy.root / name for name in self._copy.listing(self.folder))
            self._is_brought = True
        known = {segment.path: segment for segment in self._segments}
        paths = sorted(set(self.folder.glob("*.parquet")) - self._refused)
        if paths == list(known):
            return
        segments = [known.get(path) or self._read_segment(path) for path in paths]
        self._use([segment for segment in segments if segment is not None])

    def _use(self, segments: list[_Segment]) -> None:
        self._segments = segments
        self._keys = pa.concat_arrays([pa.array([], KEY), *(part.keys for part in segments)])

    def _refuse(self, path: Path) -> None:
        self._refused.add(path)
        self._use([segment for segment in self._segments if segment.path != path])

    def _places(self, keys: pa.Array) -> Positions:
        """Return where each key stands among all keys, the first place; -1: nowhere."""
        places = pc.fill_null(pc.index_in(keys, value_set=self._keys), -1)
        return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _read_segment(self, path: Path) -> _Segment | None:
        table = self._read(path, ["key"])
        if table is None:
            return None
        return _Segment(path, table.column("key").combine_chunks())

    def _read(self, path: Path, columns: list[str]) -> pa.Table | None:
        """Read columns with their checksums; a segment that cannot be read is left out."""
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                same_types(_KEYS)(file.schema_arrow)
                self._check(file.schema_arrow)
                return file.read(columns=columns)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            self._refused.add(path)
            what = " ".join(str(error).split())
            _log.warning("%s: segment %s is ignored, delete it: %s", self._name, path, what)
            return None


def _by_segment(
    segments: Sequence[_Segment], places: Positions
) -> Iterator[tuple[_Segment, Positions, Positions]]:
    """Yield each segment that holds some places: which of them, and their rows in it."""
    by_place = np.argsort(places, kind="stable")
    first = 0
    for segment in list(segments):
        end = first + len(segment.keys)
        begin, stop = np.searchsorted(places, [first, end], sorter=by_place)
        at = by_place[begin:stop]
        if at.size:
            yield segment, at, places[at] - first
        first = end
