"""Sentence Transformers: ``InformationRetrievalEvaluator.compute_metrics``.

Source: ``sentence_transformers/sentence_transformer/evaluation/information_retrieval.py`` of
sentence-transformers 6.2.0 (https://github.com/huggingface/sentence-transformers). Lists are read
by score descending, then id *ascending*. With R relevant ids, all binary:

- accuracy@k: 1 when any of the first k is relevant; precision@k: hits / k; recall@k: hits / R.
- mrr@k: of the first relevant id; ndcg@k: the ideal is min(R, k) ones.
- map@k: sum of the precision at each relevant rank / min(R, k).

Queries without a relevant id are left out. The evaluator searches by itself, so that no query is
missing from its results; one that the run lacks is taken as an empty list, which scores 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Measure,
    ToolMetric,
    ToolQuery,
    discounted,
)

Relevance = list[bool]


def id_ascending(query: ToolQuery) -> list[str]:
    """Return the ids by score descending, then by id ascending."""
    return [item for item, _ in sorted(query.hits, key=lambda hit: (-hit[1], hit[0]))]


def _measure(compute: Callable[[Relevance, int, int], float]) -> Measure:
    """Return the measure of (relevance of the first k, R, k) as one of a query."""

    def measure(query: ToolQuery, metric: ToolMetric) -> float | None:
        if not query.relevant:
            return None
        ranking = id_ascending(query)
        k = metric.cutoff or len(ranking)
        return compute([item in query.relevant for item in ranking[:k]], len(query.relevant), k)

    return measure


def _accuracy(hits: Relevance, _r: int, _k: int) -> float:
    return float(any(hits))


def _precision(hits: Relevance, _r: int, k: int) -> float:
    return sum(hits) / k


def _recall(hits: Relevance, r: int, _k: int) -> float:
    return sum(hits) / r


def _mrr(hits: Relevance, _r: int, _k: int) -> float:
    return next((1 / rank for rank, hit in enumerate(hits, 1) if hit), 0.0)


def _ndcg(hits: Relevance, r: int, k: int) -> float:
    return discounted(map(float, hits)) / discounted([1.0] * min(r, k))


def _map(hits: Relevance, r: int, k: int) -> float:
    ranks = [rank for rank, hit in enumerate(hits, 1) if hit]
    return sum(nth / rank for nth, rank in enumerate(ranks, 1)) / min(r, k)


class SentenceTransformers(Dialect):
    """The metrics of Sentence Transformers' information retrieval evaluator."""

    name = "sentence_transformers"
    package = "sentence-transformers 6.2.0"
    needs_cutoff = True
    measures: ClassVar[Mapping[str, Measure]] = {
        "accuracy": _measure(_accuracy),
        "precision": _measure(_precision),
        "recall": _measure(_recall),
        "ndcg": _measure(_ndcg),
        "mrr": _measure(_mrr),
        "map": _measure(_map),
    }
    defaults = ("accuracy@10", "precision@10", "recall@10", "ndcg@10", "mrr@10", "map@100")
    counterparts: ClassVar[Mapping[str, str]] = {
        "hit_rate": "accuracy",
        "precision": "precision",
        "recall": "recall",
        "ndcg": "ndcg",
        "mrr": "mrr",
        "map": "map",
    }

    def order(self, query: ToolQuery) -> list[str]:
        """Return the ids by score descending, then by id ascending."""
        return id_ascending(query)
