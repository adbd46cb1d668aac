"""``type: decayed``: the sum of weight * decay^rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.fusion.sum_of_values import fuse


class Decayed(FusedRetriever):
    """A rank is worth ``decay`` times the one above it."""

    type: Literal["decayed"]
    decay: float = Field(default=0.5, gt=0, lt=1)

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        return fuse(
            rankings,
            value=lambda held: np.asarray(self.decay**held.ranks, dtype=np.float64),
            candidates=candidates,
            depth=depth,
            weights=self.weights,
        )
