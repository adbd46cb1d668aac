"""Sparse vectors by content: like :mod:`rag_assets.store.vector_cache`, without the zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.store.segments import KEY, Segments, text_keys

_SCHEMA = pa.schema(
    [
        pa.field("key", KEY, False),
        pa.field("components", pa.large_binary(), False),
        pa.field("weights", pa.large_binary(), False),
    ]
)
_WRITING = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}


class SparseVector(NamedTuple):
    """The components of a vector that are not 0.

    Attributes:
        components: int32, ascending.
        weights: float32, of the same length.
    """

    components: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]


class SparseVectorCache:
    """The sparse vectors of one space: of everything that determines them but the text."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        columns = ["components", "weights"]
        name = "sparse vector cache"
        self._segments = Segments(root / space[:16], columns, _check, name, _WRITING)

    def get(self, texts: Sequence[str]) -> dict[str, SparseVector]:
        """Return the vectors of those texts that are known."""
        found: dict[str, SparseVector] = {}
        for part in self._segments.find(text_keys(texts)):
            chosen = part.values.take(pa.array(part.rows))
            columns = (chosen.column(name).to_pylist() for name in ("components", "weights"))
            for asked, components, weights in zip(part.asked.tolist(), *columns, strict=True):
                found[texts[asked]] = SparseVector(
                    np.frombuffer(components, dtype="<i4"), np.frombuffer(weights, dtype="<f4")
                )
        return found

    def put(self, vectors: Mapping[str, SparseVector]) -> None:
        """Add the vectors of unknown texts.

        Raises:
            StoreError: the folder cannot be written.
        """
        texts = list(vectors)
        keys = text_keys(texts)
        new = self._segments.unknown(keys)
        if not new.size:
            return
        chosen = [vectors[texts[i]] for i in new.tolist()]
        components = [own.components.astype("<i4").tobytes() for own in chosen]
        weights = [own.weights.astype("<f4").tobytes() for own in chosen]
        columns = [
            keys.take(pa.array(new)),
            pa.array(components, pa.large_binary()),
            pa.array(weights, pa.large_binary()),
        ]
        self._segments.add(pa.Table.from_arrays(columns, schema=_SCHEMA))


def _check(schema: pa.Schema) -> None:
    for name in ("components", "weights"):
        if schema.field(name).type != _SCHEMA.field(name).type:
            raise ValueError(f"column {name} is {schema.field(name).type}")
