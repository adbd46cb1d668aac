"""Fusions that sum points for ranks: Borda count and inverse square rank.

- Borda (Aslam and Montague: Models for Metasearch, SIGIR 2001): of c candidates in the union of the
  inputs, an input gives the item at rank r the points c - r + 1; those that it does not hold share
  its remaining points evenly.
- ISR (Mourao, Martins and Magalhaes: NovaSearch at TREC 2013 Federated Web Search Track): the sum
  of 1 / rank^2, times how many inputs hold the item.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rag_assets.retrieval.fusion.contributions import Contributions, Floats
from rag_assets.retrieval.fusion.sum_of_values import fuse


def borda(
    rankings: Sequence[pa.Table],
    *,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse by Borda points above those of an absent item."""
    return fuse(rankings, value=_points, candidates=candidates, depth=depth, weights=weights)


def _points(found: Contributions) -> Floats:
    union = np.bincount(found.queries[found.firsts])[found.queries]
    held = np.bincount(found.lists)[found.lists]
    return (union - found.ranks + 1) - (union - held + 1) / 2


def inverse_square_rank(
    rankings: Sequence[pa.Table],
    *,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse by the sum of 1 / rank^2, times the number of inputs that hold the item."""
    return fuse(
        rankings,
        value=lambda found: 1 / found.ranks**2,
        times_found=True,
        candidates=candidates,
        depth=depth,
        weights=weights,
    )
