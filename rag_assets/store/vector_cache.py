"""Vectors by content: a text that was embedded once is never embedded again.

A space is everything that determines a vector but the text; each space has its own folder of
immutable segments. Several processes may write at once: a segment's name is its own, and where two
segments hold the same text the older one wins, so what is read does not change later.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.store.atomic import atomic_file

KEY = pa.binary(32)

Vectors = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Segment:
    path: Path
    keys: pa.Array


class VectorCache:
    """The vectors of one space."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        self.folder = root / space[:16]
        self._segments: list[_Segment] = []
        self._refused: set[Path] = set()
        self._keys: pa.Array = pa.array([], KEY)

    def get(self, texts: Sequence[str]) -> tuple[Vectors, Mask]:
        """Look texts up.

        Args:
            texts: the exact texts that were embedded, with their prompt.

        Returns:
            Vectors, float32, shape (len(texts), dimension), rows of zeros where nothing is known
            (dimension 0 when no text is), and a mask, shape (len(texts),), of what was found.
        """
        keys = _keys_of(texts)
        self._refresh()
        while True:
            vectors, found, damaged = self._gather(self._places(keys))
            if damaged is None:
                return vectors, found
            self._refuse(damaged.path)

    def put(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Add vectors, those of unknown texts only.

        Args:
            texts: the exact texts that were embedded, with their prompt.
            vectors: float32, shape (len(texts), dimension).

        Raises:
            DataError: the shape does not fit, or a vector holds NaN or infinity.
            StoreError: the folder cannot be written.
        """
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.dtype != np.float32:
            raise DataError(
                f"{len(texts)} texts, but vectors of shape {vectors.shape}, {vectors.dtype}"
            )
        if not np.isfinite(vectors).all():
            raise DataError("a vector holds NaN or infinity and is not cached")
        keys = _keys_of(texts)
        self._refresh()
        new = np.flatnonzero(self._places(keys) < 0)
        if new.size:
            self._write(keys.take(pa.array(new)), vectors[new])

    def _write(self, keys: pa.Array, vectors: Vectors) -> None:
        flat = pa.array(np.ascontiguousarray(vectors).ravel())
        item = pa.field("item", pa.float32(), nullable=False)
        vector = pa.list_(item, vectors.shape[1])
        schema = pa.schema([pa.field("key", KEY, False), pa.field("vector", vector, False)])
        columns = [keys, pa.FixedSizeListArray.from_arrays(flat, type=vector)]
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.parquet"
        with atomic_file(self.folder / name) as temporary:
            pq.write_table(
                pa.Table.from_arrays(columns, schema=schema),
                temporary,
                compression="none",  # vectors do not compress
                use_dictionary=False,
                write_statistics=False,
                write_page_checksum=True,
            )

    def _refresh(self) -> None:
        """Read the keys of segments that appeared, and forget those that are gone."""
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

    def _places(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return where each key stands among all keys, the first place; -1: nowhere."""
        places = pc.fill_null(pc.index_in(keys, value_set=self._keys), -1)
        return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _gather(self, places: npt.NDArray[np.int64]) -> tuple[Vectors, Mask, _Segment | None]:
        """Return the vectors at these places; a damaged segment ends it and is returned."""
        found: Mask = places >= 0
        vectors = np.zeros((len(places), 0), dtype=np.float32)
        by_place = np.argsort(places, kind="stable")
        first = 0
        for segment in self._segments:
            end = first + len(segment.keys)
            begin, stop = np.searchsorted(places, [first, end], sorter=by_place)
            rows = by_place[begin:stop]
            if rows.size:
                content = self._read_vectors(segment)
                if content is None:
                    return vectors, found, segment
                if not vectors.shape[1]:
                    vectors = np.zeros((len(places), content.shape[1]), dtype=np.float32)
                vectors[rows] = content[places[rows] - first]
            first = end
        return vectors, found, None

    def _read_segment(self, path: Path) -> _Segment | None:
        table = self._read(path, "key")
        if table is None:
            return None
        return _Segment(path, table.column("key").combine_chunks())

    def _read_vectors(self, segment: _Segment) -> Vectors | None:
        table = self._read(segment.path, "vector")
        if table is None or table.num_rows != len(segment.keys):
            return None
        column = pa.concat_arrays(table.column("vector").chunks)
        dimension = column.type.list_size
        return np.asarray(column.flatten().to_numpy(), dtype=np.float32).reshape(-1, dimension)

    def _read(self, path: Path, column: str) -> pa.Table | None:
        """Read one column with its checksums; a segment that cannot be read is left out."""
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read(columns=[column])
                _check_type(table, column)
                return table
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            self._refused.add(path)
            what = " ".join(str(error).split())
            _log.warning("vector cache: segment %s is ignored, delete it: %s", path, what)
            return None


def _check_type(table: pa.Table, column: str) -> None:
    found = table.schema.field(column).type
    if column == "key" and found == KEY:
        return
    if pa.types.is_fixed_size_list(found) and found.value_type == pa.float32():
        return
    raise ValueError(f"column {column} is {found}")


def _keys_of(texts: Sequence[str]) -> pa.Array:
    return pa.array([hashlib.sha256(text.encode()).digest() for text in texts], KEY)
