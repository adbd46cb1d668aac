"""Rankings with scores for the tests of fusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rag_assets.retrieval.fusion.methods import RRF, Borda, CombMnz, CombSum, InverseSquareRank
from rag_assets.schemas import RUNS

Scored = Mapping[str, float]
"""Unit -> score."""


def ranking(scored: Scored, query: str = "q") -> pa.Table:
    """Return a ranking of one query in the one order: score, then id, both descending."""
    ordered = sorted(scored.items(), key=lambda item: (item[1], item[0].encode()), reverse=True)
    return RUNS.from_rows(
        [
            {
                "query_id": query,
                "rank": rank,
                "score": float(score),
                "unit_id": item,
                "chunk_id": item,
                "document_id": item,
            }
            for rank, (item, score) in enumerate(ordered, 1)
        ]
    )


def scores(table: pa.Table) -> dict[str, float]:
    """Return unit -> score, best first."""
    return dict(zip(table["unit_id"].to_pylist(), table["score"].to_pylist(), strict=True))


def expected_order(scored: Scored) -> Sequence[str]:
    """Return the units by score, then id, both descending."""
    return sorted(scored, key=lambda item: (scored[item], item.encode()), reverse=True)


def reciprocal_rank_fusion(
    rankings: Sequence[pa.Table], *, k: float, candidates: int, depth: int
) -> pa.Table:
    """Fuse any number of rankings, however few, by RRF."""
    return RRF.model_construct(k=k).fuse(rankings, candidates=candidates, depth=depth)


def comb_sum(
    rankings: Sequence[pa.Table], *, candidates: int, depth: int, **options: object
) -> pa.Table:
    """Fuse any number of rankings by CombSUM."""
    fusion = CombSum.model_construct(None, **options)
    return fusion.fuse(rankings, candidates=candidates, depth=depth)


def comb_mnz(
    rankings: Sequence[pa.Table], *, candidates: int, depth: int, **options: object
) -> pa.Table:
    """Fuse any number of rankings by CombMNZ."""
    fusion = CombMnz.model_construct(None, **options)
    return fusion.fuse(rankings, candidates=candidates, depth=depth)


def borda(rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
    """Fuse any number of rankings by Borda points."""
    return Borda.model_construct().fuse(rankings, candidates=candidates, depth=depth)


def inverse_square_rank(
    rankings: Sequence[pa.Table],
    *,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse any number of rankings by inverse square ranks."""
    fusion = InverseSquareRank.model_construct(weights=weights)
    return fusion.fuse(rankings, candidates=candidates, depth=depth)
