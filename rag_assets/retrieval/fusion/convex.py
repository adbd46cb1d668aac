"""``type: convex``: a convex combination of normalised scores."""

from __future__ import annotations

from math import isclose
from typing import Literal

from pydantic import ValidationInfo, field_validator

from rag_assets.retrieval.derived import Weight
from rag_assets.retrieval.fusion.score_sums import CombSum


class Convex(CombSum):
    """Convex combination: the sum of weight times normalised score; the weights sum to 1.

    Without ``weights`` every input has the same.
    """

    type: Literal["convex"]  # type: ignore[assignment]
    weights: tuple[Weight, ...] | None = None

    @field_validator("weights")
    @classmethod
    def _sum_to_one(
        cls, weights: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        if weights is not None and not isclose(sum(weights), 1, abs_tol=1e-9):
            raise ValueError(f"must sum to 1; they sum to {sum(weights):g}")
        if weights is None and info.data.get("inputs"):
            return (1 / len(info.data["inputs"]),) * len(info.data["inputs"])
        return weights
