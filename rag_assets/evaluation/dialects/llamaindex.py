"""LlamaIndex: ``RetrieverEvaluator`` with its default settings, over the whole list.

Source: ``llama_index/core/evaluation/retrieval/metrics.py`` of llama-index-core 0.14.25
(https://github.com/run-llama/llama_index). LlamaIndex has no cut-off, its lists end at the
``similarity_top_k`` of the retriever: ``ndcg@5`` is its metric of the list cut at 5.

With the list of length n and R relevant ids, all binary:

- hit_rate, mrr: of the first relevant id.
- precision: different relevant ids / different ids; recall: different relevant ids / R.
- ap: sum of the precision at each rank that holds a relevant id, repeated ones too / R.
- ndcg: a gain at every rank that holds a relevant id, repeated ones too; the ideal is R ones,
  *not* cut at n. (Up to 0.11.20 it was n ones, whatever R.)

It raises ValueError on an empty list and on a query without a relevant id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Measure,
    NoNumber,
    ToolMetric,
    ToolQuery,
    discounted,
)

Relevant = frozenset[str]


def _measure(compute: Callable[[Relevant, list[str]], float]) -> Measure:
    def measure(query: ToolQuery, metric: ToolMetric) -> float:
        ranking = query.ranking[: metric.cutoff]
        if not ranking:
            raise NoNumber("nothing was retrieved, LlamaIndex raises ValueError")
        if not query.relevant:
            raise NoNumber("no document is relevant, LlamaIndex raises ValueError")
        return compute(query.relevant, ranking)

    return measure


def _hit_rate(relevant: Relevant, ranking: list[str]) -> float:
    return float(not relevant.isdisjoint(ranking))


def _mrr(relevant: Relevant, ranking: list[str]) -> float:
    return next((1 / rank for rank, item in enumerate(ranking, 1) if item in relevant), 0.0)


def _precision(relevant: Relevant, ranking: list[str]) -> float:
    return len(relevant.intersection(ranking)) / len(set(ranking))


def _recall(relevant: Relevant, ranking: list[str]) -> float:
    return len(relevant.intersection(ranking)) / len(relevant)


def _ap(relevant: Relevant, ranking: list[str]) -> float:
    ranks = [rank for rank, item in enumerate(ranking, 1) if item in relevant]
    return sum(nth / rank for nth, rank in enumerate(ranks, 1)) / len(relevant)


def _ndcg(relevant: Relevant, ranking: list[str]) -> float:
    gained = discounted(float(item in relevant) for item in ranking)
    return gained / discounted([1.0] * len(relevant))


class LlamaIndex(Dialect):
    """LlamaIndex's retrieval metrics."""

    name = "llamaindex"
    package = "llama-index-core 0.14.25"
    measures: ClassVar[Mapping[str, Measure]] = {
        "hit_rate": _measure(_hit_rate),
        "mrr": _measure(_mrr),
        "precision": _measure(_precision),
        "recall": _measure(_recall),
        "ap": _measure(_ap),
        "ndcg": _measure(_ndcg),
    }
    defaults = tuple(measures)
