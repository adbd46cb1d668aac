"""Caches by content: rows by key, in folders of immutable Parquet segments.

Each kind of cached things (``embeddings``, ``completions``, ...) has a folder below :data:`CACHE`,
or a folder for each space: for all that determines an entry besides the text. Several processes
may read and write a folder at once. A segment's name is its own and begins with the time, so
writers never meet; where two segments hold the same key the older one wins, so what is read does
not change later. A segment is never changed: where entries are taken out, a new one without them
takes its place. What cannot be read is left out with a warning: a cache that lost a row only
computes it again.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.store.atomic import atomic_file
from rag_assets.store.parquet_files import read_parquet

CACHE = "cache"
"""The folder of all content caches in the store."""

COMPLETIONS = "completions"

BY_TEXT = ("embeddings", "token_vectors", "sparse_embeddings", "token_counts")
"""Kinds that hold vectors, or numbers of tokens, of texts."""

KEY = pa.binary(32)
"""Keys are SHA-256 digests."""

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


class SegmentHits(NamedTuple):
    """What one segment knows: key ``asked[i]`` of those looked up is row ``rows[i]`` of it."""

    asked: Positions
    values: pa.Table
    rows: Positions

    def chosen(self) -> pa.Table:
        """Return the rows in the order of ``asked``."""
        return self.values.take(pa.array(self.rows))


class ContentCache:
    """The entries of one folder: a key, and the columns of a schema.

    Columns that may be null are missing in files of older versions.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        """Use ``folder``; it is created by the first entry.

        The ``schema`` has the columns beside ``key``; a list stands for lists of any fixed size.
        """
        self.folder = folder
        self.schema = schema
        self._segments: dict[Path, pa.Array] = {}
        self._refused: set[Path] = set()
        self._keys: pa.Array = pa.array([], KEY)

    def find(self, keys: pa.Array, columns: Sequence[str] = ()) -> Iterator[SegmentHits]:
        """Look keys up, one segment at a time; without ``columns``, all are read."""
        self._refresh()
        names = list(columns) or self.schema.names
        pending = np.arange(len(keys), dtype=np.int64)
        while pending.size:
            is_all = pending.size == len(keys)  # which are not copied
            places = self._places(keys if is_all else keys.take(pa.array(pending)))
            pending, places = pending[places >= 0], places[places >= 0]
            damaged = []
            for path, at, rows in self._by_segment(places):
                values = self._read(path, names)
                if values is None:
                    damaged.append(pending[at])
                else:
                    yield SegmentHits(pending[at], values, rows)
            pending = np.concatenate([np.empty(0, np.int64), *damaged])
            self._use({p: part for p, part in self._segments.items() if p not in self._refused})

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield these columns of every segment, by age; those of an older version may lack some."""
        self._refresh()
        for path in list(self._segments):
            table = self._read(path, list(columns))
            if table is not None:
                yield table

    def put(self, keys: pa.Array, columns: Sequence[pa.Array]) -> None:
        """Add entries whose keys are not known, with the schema's columns; the first one wins."""
        self._refresh()
        new = np.flatnonzero(self._places(keys) < 0)
        if not new.size:
            return
        fields = zip(self.schema, columns, strict=True)
        schema = [pa.field("key", KEY, False), *(f.with_type(c.type) for f, c in fields)]
        table = pa.Table.from_arrays([keys, *columns], schema=pa.schema(schema))
        path = self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.parquet"
        _write(path, table if new.size == len(keys) else table.take(pa.array(new)))

    def _refresh(self) -> None:
        """Read the keys of segments that appeared, and forget those that are gone."""
        paths = sorted(set(self.folder.glob("*.parquet")) - self._refused)
        if paths != list(self._segments):
            segments = {path: self._segments.get(path) for path in paths}
            for path in [path for path, keys in segments.items() if keys is None]:
                table = self._read(path, ["key"])
                segments[path] = None if table is None else table.column("key").combine_chunks()
            self._use({path: keys for path, keys in segments.items() if keys is not None})

    def _use(self, segments: dict[Path, pa.Array]) -> None:
        if segments.keys() != self._segments.keys():
            self._segments = segments
            self._keys = pa.concat_arrays([pa.array([], KEY), *segments.values()])

    def _places(self, keys: pa.Array) -> Positions:
        """Return where each key stands among all keys, the first place; -1: nowhere."""
        # The few that are asked for make a hash table, and then those of all that are among them.
        rows = np.flatnonzero(pc.is_in(self._keys, value_set=keys))
        places = pc.index_in(keys, value_set=self._keys.take(pa.array(rows)))
        of_keys: Positions = np.append(rows, -1)[np.asarray(pc.fill_null(places, -1))]
        return of_keys

    def _by_segment(self, places: Positions) -> Iterator[tuple[Path, Positions, Positions]]:
        """Yield each segment that holds some places: which of them, and their rows in it."""
        by_place = np.argsort(places, kind="stable")
        first = 0
        for path, keys in list(self._segments.items()):
            begin, stop = np.searchsorted(places, [first, first + len(keys)], sorter=by_place)
            at = by_place[begin:stop]
            if at.size:
                yield path, at, places[at] - first
            first += len(keys)

    def _read(self, path: Path, columns: list[str]) -> pa.Table | None:
        """Read columns with their checksums; a segment that cannot be read is left out."""
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                _check(file.schema_arrow, self.schema)
                table = file.read(columns=columns)
            if path in self._segments and table.num_rows != len(self._segments[path]):
                raise ValueError("another number of rows")
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            self._refused.add(path)
            what = " ".join(str(error).split())
            _log.warning("cache: segment %s is ignored, delete it: %s", path, what)
            return None
        return table


def _check(stored: pa.Schema, expected: pa.Schema) -> None:
    """Check the types of a segment's columns.

    Raises:
        ValueError: one has another type.
        KeyError: one is missing that may not be null.
    """
    for field in [pa.field("key", KEY, False), *expected]:
        if field.nullable and field.name not in stored.names:
            continue
        kind = stored.field(field.name).type
        if pa.types.is_list(field.type) and pa.types.is_fixed_size_list(kind):
            kind = pa.list_(kind.value_type)  # of any size
        if kind != field.type:
            raise ValueError(f"column {field.name} is {kind}")


def _write(path: Path, table: pa.Table) -> None:
    # Dense vectors do not compress.
    is_dense = any(pa.types.is_fixed_size_list(kind) for kind in table.schema.types)
    with atomic_file(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="none" if is_dense else "zstd",
            use_dictionary=False,
            write_page_checksum=True,
            write_statistics=False,
        )


def write_without(segment: Path, dropped: npt.NDArray[np.bool_]) -> Path:
    """Write a segment without the rows that are dropped beside one, and return where it lies."""
    # The time at the beginning of the name decides which of two equal keys is read.
    stamp = segment.name.partition("-")[0]
    path = segment.with_name(f"{stamp}-{uuid.uuid4().hex[:12]}.parquet")
    _write(path, read_parquet(segment).filter(~dropped))
    return path
