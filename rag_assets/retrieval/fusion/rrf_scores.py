"""Reciprocal rank fusion.

Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods, SIGIR 2009: ``score(d) = sum over inputs of 1 / (k + rank(d))``, ranks from 1. An
item that an input does not hold gets nothing from it, and one that it holds twice counts once, at
its best rank. With weights, each input's term is multiplied by its weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rag_assets.retrieval.fusion.sum_of_values import fuse


def reciprocal_rank_fusion(
    rankings: Sequence[pa.Table],
    *,
    k: float,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse rankings of the same queries.

    Args:
        rankings: tables of :data:`rag_assets.schemas.RUNS`, one an input.
        k: the constant of the formula; 60 in the paper.
        candidates: how many ranks of each input are read.
        depth: how many ranks are kept.
        weights: a factor for each input; 1 for all when absent.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
    """
    return fuse(
        rankings,
        value=lambda found: 1 / (k + found.ranks),
        candidates=candidates,
        depth=depth,
        weights=weights,
    )
