"""``type: borda`` and ``type: isr``: sums of points for ranks.

- Borda (Aslam and Montague: Models for Metasearch, SIGIR 2001): of c candidates in the union of the
  inputs, an input gives the item at rank r the points c - r + 1; those that it does not hold share
  its remaining points evenly.
- ISR (Mourao, Martins and Magalhaes: NovaSearch at TREC 2013 Federated Web Search Track): the sum
  of 1 / rank^2, times how many inputs hold the item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from rag_assets.package_versions import version
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.fusion.sum_of_values import Contributions, Floats, fuse


class RankSum(FusedRetriever):
    """A fusion of ranks without a parameter."""

    def versions(self) -> Mapping[str, str]:
        """Return the version of what sums and sorts."""
        return {"numpy": version("numpy")}


class Borda(RankSum):
    """Borda count: points for every item that an input ranks lower, or does not hold."""

    type: Literal["borda"]

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse by Borda points above those of an absent item."""
        return fuse(
            rankings, value=_points, candidates=candidates, depth=depth, weights=self.weights
        )


class InverseSquareRank(RankSum):
    """Inverse square rank: the sum of 1 / rank^2, times how many inputs hold the item."""

    type: Literal["isr"]

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse by inverse square ranks."""
        return fuse(
            rankings,
            value=lambda held: 1 / held.ranks**2,
            times_held=True,
            candidates=candidates,
            depth=depth,
            weights=self.weights,
        )


def _points(held: Contributions) -> Floats:
    union = np.bincount(held.queries[held.firsts])[held.queries]
    of_input = np.bincount(held.lists)[held.lists]
    return (union - held.ranks + 1) - (union - of_input + 1) / 2
