"""Token vectors by content, in half precision: a text is encoded once, whoever reranks it.

Like :mod:`rag_assets.store.vector_cache`, but a text has as many vectors as it has tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.store.segments import KEY, Segments, text_keys

TokenVectors = npt.NDArray[np.float16]
"""Shape (tokens, dimension)."""

_SCHEMA = pa.schema(
    [
        pa.field("key", KEY, False),
        pa.field("dimension", pa.int32(), False),
        pa.field("vectors", pa.large_binary(), False),
    ]
)
_WRITING = {"compression": "none", "use_dictionary": False, "write_statistics": False}


class TokenVectorCache:
    """The token vectors of one space: of everything that determines them but the text."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        self._segments = Segments(
            root / space[:16], ["dimension", "vectors"], _check, "token vector cache", _WRITING
        )

    def get(self, texts: Sequence[str]) -> dict[str, TokenVectors]:
        """Return the vectors of those texts that are known."""
        found: dict[str, TokenVectors] = {}
        for part in self._segments.find(text_keys(texts)):
            chosen = part.values.take(pa.array(part.rows))
            columns = (chosen.column(name).to_pylist() for name in ("dimension", "vectors"))
            for asked, dimension, content in zip(part.asked.tolist(), *columns, strict=True):
                flat = np.frombuffer(content, dtype="<f2")
                found[texts[asked]] = flat.reshape(-1, dimension)
        return found

    def put(self, vectors: Mapping[str, TokenVectors]) -> None:
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
        columns = [
            keys.take(pa.array(new)),
            pa.array([own.shape[1] for own in chosen], pa.int32()),
            pa.array([own.astype("<f2").tobytes() for own in chosen], pa.large_binary()),
        ]
        self._segments.add(pa.Table.from_arrays(columns, schema=_SCHEMA))


def _check(schema: pa.Schema) -> None:
    for name in ("dimension", "vectors"):
        if schema.field(name).type != _SCHEMA.field(name).type:
            raise ValueError(f"column {name} is {schema.field(name).type}")
