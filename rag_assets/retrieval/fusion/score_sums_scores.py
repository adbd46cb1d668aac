"""Fusions that sum normalised scores: CombSUM, CombMNZ and convex combination.

- CombSUM: the sum of the normalised scores (Fox and Shaw: Combination of Multiple Searches, TREC-2,
  1994); with weights that sum to 1 it is the convex combination.
- CombMNZ: that sum, times how many inputs hold the item (same paper).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rag_assets.retrieval.fusion.normalisation import NORMALISED, Normalisation
from rag_assets.retrieval.fusion.sum_of_values import fuse


def comb_sum(
    rankings: Sequence[pa.Table],
    *,
    normalisation: Normalisation,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
    minima: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse by the sum of normalised scores; see :func:`.sum_of_values.fuse`."""
    return fuse(
        rankings,
        value=NORMALISED[normalisation],
        candidates=candidates,
        depth=depth,
        weights=weights,
        minima=minima,
    )


def comb_mnz(
    rankings: Sequence[pa.Table],
    *,
    normalisation: Normalisation,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
    minima: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse by the sum of normalised scores, times the number of inputs that hold the item."""
    return fuse(
        rankings,
        value=NORMALISED[normalisation],
        times_found=True,
        candidates=candidates,
        depth=depth,
        weights=weights,
        minima=minima,
    )
