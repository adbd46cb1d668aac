"""``type: comb_sum`` and ``type: comb_mnz``: sums of normalised scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.options import Number
from rag_assets.package_versions import version
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.fusion.normalisation import Normalisation
from rag_assets.retrieval.fusion.score_sums_scores import comb_mnz, comb_sum


class ScoreSum(FusedRetriever):
    """A fusion of scores.

    ``normalisation`` makes the scores of the inputs comparable; ``theoretical_min_max`` needs
    ``minima``: the lowest score that each input could give, such as -1 for a cosine, 0 for BM25.
    """

    normalisation: Normalisation = "min_max"
    minima: tuple[Number, ...] | None = Field(default=None, min_length=2)

    @model_validator(mode="after")
    def _has_minima(self) -> Self:
        wanted = len(self.inputs) if self.normalisation == "theoretical_min_max" else 0
        if len(self.minima or ()) != wanted:
            found = len(self.minima or ())
            raise ValueError(
                f"normalisation {self.normalisation} takes {wanted} minima, one an input; "
                f"found {found}"
                if wanted
                else f"minima belong to normalisation theoretical_min_max, not {self.normalisation}"
            )
        return self

    def versions(self) -> Mapping[str, str]:
        """Return the version of what sums and sorts."""
        return {"numpy": version("numpy")}


class CombSum(ScoreSum):
    """CombSUM: the sum of the normalised scores, times the weights."""

    type: Literal["comb_sum"]

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse by the sum."""
        return comb_sum(
            rankings,
            normalisation=self.normalisation,
            candidates=candidates,
            depth=depth,
            weights=self.weights,
            minima=self.minima,
        )


class CombMnz(ScoreSum):
    """CombMNZ: the sum of the normalised scores, times how many inputs hold the item."""

    type: Literal["comb_mnz"]

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse by the sum, times the number of inputs that hold the item."""
        return comb_mnz(
            rankings,
            normalisation=self.normalisation,
            candidates=candidates,
            depth=depth,
            weights=self.weights,
            minima=self.minima,
        )
