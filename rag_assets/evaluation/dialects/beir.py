"""BEIR: ``EvaluateRetrieval.evaluate`` and, after it, ``evaluate_custom``.

Source: ``beir/retrieval/evaluation.py`` and ``custom_metrics.py`` of beir 2.2.0
(https://github.com/beir-cellar/beir). A hit whose id is the query's own is dropped first; as that
changes the results themselves, the custom metrics do not see it either.

NDCG, MAP, Recall and P are trec_eval's ``ndcg_cut``, ``map_cut``, ``recall`` and ``P`` by
pytrec_eval: scores rounded to 32 bits, then score descending, id descending; the mean is over the
queries that both files name. The custom metrics keep the order of the run among equal scores, and
divide by *all* queries of the qrels:

- MRR@k, Accuracy@k (1 when any of the first k is relevant), R_cap@k = hits / min(R, k).
- Hole@k = documents of the first k that are judged for no query at all / k.

They fail on a query that the qrels lack (KeyError), but for Hole; R_cap on one without a relevant
document (ZeroDivisionError). Means are rounded to 5 decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import numpy as np

from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Measure,
    NoNumber,
    Outcome,
    ToolInput,
    ToolMetric,
    ToolQuery,
    discounted,
)

CUSTOM = ("MRR", "R_cap", "Hole", "Accuracy")
DECIMALS = 5


def trec_order(query: ToolQuery) -> list[str]:
    """Return the ids as pytrec_eval reads them: by 32-bit score, then id, both descending."""
    with np.errstate(over="ignore"):
        scores = {item: float(np.float32(score)) for item, score in _others(query)}
    return sorted(scores, key=lambda item: (scores[item], item), reverse=True)


def custom_order(query: ToolQuery) -> list[str]:
    """Return the ids by score descending; equal scores stay in the order of the run."""
    scores = dict(_others(query))
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _others(query: ToolQuery) -> Iterable[tuple[str, float]]:
    return ((item, score) for item, score in query.scores.items() if item != query.query_id)


def _trec(compute: Callable[[list[int], list[int], int], float]) -> Measure:
    """Return the measure of (grades of the first k, positive grades best first, k)."""

    def measure(query: ToolQuery, metric: ToolMetric) -> float | None:
        if not query.in_run:
            return None
        positive = sorted((grade for grade in query.grades.values() if grade > 0), reverse=True)
        k = metric.cutoff or 1
        grades = [max(query.grades.get(item, 0), 0) for item in trec_order(query)[:k]]
        return compute(grades, positive, k) if positive else 0.0

    return measure


def _ndcg(grades: list[int], positive: list[int], k: int) -> float:
    return discounted(grades) / discounted(positive[:k])


def _map(grades: list[int], positive: list[int], _: int) -> float:
    ranks = [rank for rank, grade in enumerate(grades, 1) if grade]
    return sum(nth / rank for nth, rank in enumerate(ranks, 1)) / len(positive)


def _recall(grades: list[int], positive: list[int], _: int) -> float:
    return sum(map(bool, grades)) / len(positive)


def _precision(grades: list[int], _: list[int], k: int) -> float:
    return sum(map(bool, grades)) / k


def _custom(compute: Callable[[ToolQuery, list[str], int], float]) -> Measure:
    """Return the measure of (query, ids of the first k, k); a query that the run lacks adds 0."""

    def measure(query: ToolQuery, metric: ToolMetric) -> float:
        k = metric.cutoff or 1
        return compute(query, custom_order(query)[:k], k) if query.in_run else 0.0

    return measure


def _mrr(query: ToolQuery, ranking: list[str], _: int) -> float:
    return next((1 / rank for rank, item in enumerate(ranking, 1) if item in query.relevant), 0.0)


def _recall_cap(query: ToolQuery, ranking: list[str], k: int) -> float:
    if not query.relevant:
        raise NoNumber("no document is relevant, BEIR raises ZeroDivisionError")
    return len(query.relevant.intersection(ranking)) / min(len(query.relevant), k)


def _hole(query: ToolQuery, ranking: list[str], k: int) -> float:
    return sum(item not in query.judged_anywhere for item in ranking) / k


def _accuracy(query: ToolQuery, ranking: list[str], _: int) -> float:
    return float(not query.relevant.isdisjoint(ranking))


class Beir(Dialect):
    """BEIR's metrics."""

    name = "beir"
    package = "beir 2.2.0"
    needs_cutoff = True
    measures: ClassVar[Mapping[str, Measure]] = {
        "NDCG": _trec(_ndcg),
        "MAP": _trec(_map),
        "Recall": _trec(_recall),
        "P": _trec(_precision),
        "MRR": _custom(_mrr),
        "R_cap": _custom(_recall_cap),
        "Hole": _custom(_hole),
        "Accuracy": _custom(_accuracy),
    }
    defaults = ("NDCG@10", "MAP@10", "Recall@10", "P@10", "MRR@10")

    def outcome(self, data: ToolInput, metric: ToolMetric) -> Outcome:
        """Return the rounded mean, over the queries that this metric's part of BEIR divides by."""
        result = super().outcome(data, metric)
        if metric.measure in CUSTOM:
            return self._custom_outcome(data, metric, result)
        values = [value for value in result.per_query.values() if value is not None]
        if not values:
            return Outcome(None, result.per_query, "the run names no query of the qrels")
        return Outcome(_rounded_mean(values, len(values)), result.per_query)

    def _custom_outcome(self, data: ToolInput, metric: ToolMetric, result: Outcome) -> Outcome:
        if result.problem is not None:
            return result
        strangers = list(data.strangers)
        if strangers and metric.measure != "Hole":
            what = "stands in the run but not in the qrels, BEIR raises KeyError"
            return Outcome(None, result.per_query, f"query '{strangers[0].query_id}' {what}")
        values = [value for value in result.per_query.values() if value is not None]
        values += [self.measures[metric.measure](query, metric) or 0.0 for query in strangers]
        return Outcome(_rounded_mean(values, len(data.judged)), result.per_query)


def _rounded_mean(values: list[float], divisor: int) -> float:
    """Add one by one, as BEIR does: an exact sum can round the other way."""
    return round(sum(values) / divisor, DECIMALS)
