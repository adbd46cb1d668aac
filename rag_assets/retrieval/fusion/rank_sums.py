"""``type: borda`` and ``type: isr``: sums of points for ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from rag_assets.package_versions import version
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.fusion.rank_sums_scores import borda, inverse_square_rank


class RankSum(FusedRetriever):
    """A fusion of ranks without a parameter."""

    def versions(self) -> Mapping[str, str]:
        """Return the version of what sums and sorts."""
        return {"numpy": version("numpy")}


class Borda(RankSum):
    """Borda count: points for every item that an input ranks lower, or does not hold."""

    type: Literal["borda"]

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse by Borda points."""
        return borda(rankings, candidates=candidates, depth=depth, weights=self.weights)


class InverseSquareRank(RankSum):
    """Inverse square rank: the sum of 1 / rank^2, times how many inputs hold the item."""

    type: Literal["isr"]

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse by inverse square ranks."""
        return inverse_square_rank(
            rankings, candidates=candidates, depth=depth, weights=self.weights
        )
