"""The candidate ceiling: how much of the evidence a fusion or reranker gets to read at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa

from rag_assets.evaluation.leaderboard import mean
from rag_assets.report.result import EvaluationResult


def ceilings(result: EvaluationResult, split: str) -> dict[str, float]:
    """Return the recall of the candidates of every retriever that reads others.

    That is the weighted mean, over the queries of a split on which it did not fail, of the share
    of the evidences that any input has as deep as it is read: no order of these candidates has a
    higher recall.

    Args:
        result: the evaluation; without attributions there is no ceiling.
        split: whose queries.

    Returns:
        Retriever -> ceiling, in [0, 1].
    """
    if not result.evaluation.entries_of("attributions"):
        return {}
    found = {
        name: _ceiling(table, result.attributed_weights(name, split))
        for name, table in result.attributions.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _ceiling(table: pa.Table, weights: Mapping[str, float]) -> float | None:
    """Return the ceiling of one retriever; None for a base retriever, or without a query."""
    columns = (table.column(name).to_pylist() for name in ("query_id", "inputs", "input_ranks"))
    in_pool: dict[str, list[bool]] = defaultdict(list)
    for query_id, inputs, ranks in zip(*columns, strict=True):
        if inputs and query_id in weights:
            in_pool[query_id].append(any(rank is not None for rank in ranks))
    shares = [sum(flags) / len(flags) for flags in in_pool.values()]
    return mean(shares, [weights[query_id] for query_id in in_pool])
