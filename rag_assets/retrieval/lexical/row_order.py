"""The order of rows that have the same score: by the rank of the id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_assets.ordering import Positions


@dataclass(frozen=True)
class RowOrder:
    """The ranks of the rows' ids.

    Attributes:
        ids_rank: place of each row's id in byte order, shape (n_rows,).
        by_rank: the row of each place, shape (n_rows,); None where rows are in this order.
    """

    ids_rank: Positions
    by_rank: Positions | None

    @classmethod
    def of(cls, ids_rank: Positions) -> RowOrder:
        """Find out whether the rows are in the order of their ids, as those of an index are."""
        if bool((ids_rank[1:] > ids_rank[:-1]).all()):
            return cls(ids_rank, None)
        by_rank = np.empty_like(ids_rank)
        by_rank[ids_rank] = np.arange(ids_rank.size)
        return cls(ids_rank, by_rank)

    def sort(self, queries: npt.NDArray[np.intp], rows: Positions) -> Positions:
        """Return rows that come by query, and ascending for each, by query and then by rank."""
        if self.by_rank is None:
            return rows
        firsts = queries * self.ids_rank.size
        ranks = self.ids_rank.take(rows) + firsts
        ranks.sort()
        return self.by_rank.take(ranks - firsts)
