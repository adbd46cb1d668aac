"""``type: rrf``: reciprocal rank fusion.

Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods, SIGIR 2009: ``score(d) = sum over inputs of 1 / (k + rank(d))``, ranks from 1. An
item that an input does not hold gets nothing from it, and one that it holds twice counts once, at
its best rank. With weights, each input's term is multiplied by its weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.options import Number
from rag_assets.package_versions import version
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.fusion.sum_of_values import fuse


class RRF(FusedRetriever):
    """Reciprocal rank fusion of other retrievers: the sum of weight / (k + rank).

    ``candidates`` is the depth to which each input is read: a number, or ``top_k`` to fuse the
    lists already cut at the cell's top_k.
    """

    type: Literal["rrf"]
    k: Number = Field(default=60, gt=0)

    def versions(self) -> Mapping[str, str]:
        """Return the version of what sums and sorts."""
        return {"numpy": version("numpy")}

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse rankings by the sum of 1 / (k + rank)."""
        return fuse(
            rankings,
            value=lambda held: 1 / (self.k + held.ranks),
            candidates=candidates,
            depth=depth,
            weights=self.weights,
        )
