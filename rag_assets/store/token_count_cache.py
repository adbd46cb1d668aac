"""Numbers of tokens by content: a text whose tokens were counted once is not tokenized again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.store.segments import KEY, Segments, text_keys

Counts = npt.NDArray[np.int32]

UNKNOWN = -1

_SCHEMA = pa.schema([pa.field("key", KEY, False), pa.field("n_tokens", pa.int32(), False)])
_WRITING = {"compression": "none", "use_dictionary": False, "write_statistics": False}


class TokenCountCache:
    """The numbers of one space: of everything that determines them but the text."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        folder = root / space[:16]
        self._segments = Segments(folder, ["n_tokens"], _check, "token count cache", _WRITING)

    def get(self, texts: Sequence[str]) -> Counts:
        """Return the number of tokens of each text, or :data:`UNKNOWN`; int32, shape (texts,)."""
        counts = np.full(len(texts), UNKNOWN, dtype=np.int32)
        for part in self._segments.find(text_keys(texts)):
            counts[part.asked] = part.values.column("n_tokens").to_numpy()[part.rows]
        return counts

    def put(self, texts: Sequence[str], counts: Counts) -> None:
        """Add the numbers of unknown texts; int32, shape (texts,).

        Raises:
            StoreError: the folder cannot be written.
        """
        keys = text_keys(texts)
        new = self._segments.unknown(keys)
        if new.size:
            columns = [keys.take(pa.array(new)), pa.array(counts[new])]
            self._segments.add(pa.Table.from_arrays(columns, schema=_SCHEMA))


def _check(schema: pa.Schema) -> None:
    if schema.field("n_tokens").type != pa.int32():
        raise ValueError(f"column n_tokens is {schema.field('n_tokens').type}")
