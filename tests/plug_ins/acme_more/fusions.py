"""``type: decayed``: the sum of weight * decay^rank."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from rag_assets.extend import SumFusion


class Decayed(SumFusion):
    """A rank is worth ``decay`` times the one above it."""

    type: Literal["decayed"]
    decay: float = Field(default=0.5, gt=0, lt=1)

    def value(self, held: Any) -> np.ndarray:
        return np.asarray(self.decay**held.ranks, dtype=np.float64)
