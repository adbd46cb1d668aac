"""Chunks by sparse weights: of words, or of a model's components; one layout for all such indexes.

Chunks are kept in ascending order of their ids, whatever the order of the corpus: the same chunks
give the same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rag_assets.ordering import Positions, byte_order_ranks
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder, unreadable

Floats = npt.NDArray[np.float64]

_FILES = ("weights", "chunks", "first_entries")


@dataclass(frozen=True)
class SparseIndex:
    """A sparse matrix by columns: the entries of column t lie at ``indptr[t]`` to ``indptr[t+1]``.

    Attributes:
        chunk_ids: ids of the chunks, the rows; positions refer to this order.
        data: weight of each entry, float32 or float64, shape (entries,).
        indices: row of each entry, ascending within a column, int32, shape (entries,).
        indptr: first entry of each column, int64, shape (columns + 1,).
    """

    chunk_ids: Sequence[str]
    data: npt.NDArray[np.floating]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    def sums(self, columns: Sequence[int], factors: Sequence[float] | None = None) -> Floats:
        """Return the sum of some columns, each times its factor, added in the order of ``columns``.

        Args:
            columns: their numbers; one that is repeated is added as often.
            factors: one for each of ``columns``; None is 1.

        Returns:
            float64, shape (chunks,); 0 where no column has an entry.
        """
        if not columns:
            return np.zeros(len(self.chunk_ids))
        entries = [slice(self.indptr[column], self.indptr[column + 1]) for column in columns]
        rows = np.concatenate([self.indices[part] for part in entries])
        values = [self.data[part] for part in entries]
        if factors is not None:
            pairs = zip(values, factors, strict=True)
            values = [np.multiply(part, factor, dtype=np.float64) for part, factor in pairs]
        # adds in the order of the entries, so in the order of the columns, in one compiled loop
        weights = np.concatenate(values)
        totals = np.bincount(rows, weights=weights, minlength=len(self.chunk_ids))
        return totals.astype(np.float64, copy=False)

    def save_columns(self, folder: ArrayFolder) -> int:
        """Write ids and columns, and return the bytes of the columns."""
        folder.save(**{CHUNK_IDS: list(self.chunk_ids)})
        arrays = (self.data, self.indices, self.indptr)
        return folder.save(**dict(zip(_FILES, arrays, strict=True)))


def load_columns(folder: ArrayFolder) -> SparseIndex:
    """Open what ``save_columns`` wrote; the arrays are mapped.

    Raises:
        StoreError: a file is missing or damaged, or they do not fit together.
    """
    data, indices, indptr = (folder.array(name) for name in _FILES)
    if not (data.shape == indices.shape == (indptr[-1:].sum(),)):
        sizes = f"{data.size} values for {indices.size} rows"
        raise unreadable(folder.path / f"{_FILES[-1]}.npy", sizes)
    return SparseIndex(folder.texts(CHUNK_IDS), data, indices, indptr)
