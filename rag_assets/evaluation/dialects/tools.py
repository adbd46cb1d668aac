"""The metrics of four tools: for each a table of its names and the formulas behind them.

What they mean, and where they part, is in ``docs/dialects.md``. A metric at a cut-off is that of
the list cut there; items that stand in a list twice count where the tool counts them.

- AutoRAG: ``autorag/evaluation/metric/retrieval.py`` and ``schema/metricinput.py`` of AutoRAG
  0.3.27 (https://github.com/Marker-Inc-Korea/AutoRAG). Lists against groups of alternatives; means
  over groups. No value where the list or the labels are empty or hold an empty group or a blank id.
- LlamaIndex: ``llama_index/core/evaluation/retrieval/metrics.py`` of llama-index-core 0.14.25
  (https://github.com/run-llama/llama_index). Binary; the ideal of nDCG is *not* cut at the length
  of the list. (Up to 0.11.20 it was as many ones as the list is long.)
- BEIR: ``beir/retrieval/evaluation.py`` and ``custom_metrics.py`` of beir 2.2.0
  (https://github.com/beir-cellar/beir). A hit whose id is the query's own is dropped. NDCG, MAP,
  Recall and P are those of pytrec_eval, which rounds scores to 32 bits; the custom metrics keep the
  order of the run among equal scores, and divide by all queries of the qrels.
- Ragas: ``ragas/metrics/_context_precision.py`` of ragas 0.4.3
  (https://github.com/explodinggradients/ragas). The labels stand for the verdicts of its model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Measure,
    NoNumber,
    ToolInput,
    ToolMetric,
    ToolQuery,
    Values,
    discounted,
)

BEIR_DECIMALS = 5

_BEIR_CUSTOM = ("MRR", "R_cap", "Hole", "Accuracy")


def _ranks(items: Collection[str], ranking: Sequence[str]) -> list[int]:
    return [rank for rank, item in enumerate(ranking, 1) if item in items]


def _precisions(ranks: Sequence[int]) -> float:
    """Return the sum of the precision at each rank that holds a relevant document."""
    return sum(nth / rank for nth, rank in enumerate(ranks, 1))


def _reciprocal_rank(relevant: Collection[str], ranking: Sequence[str]) -> float:
    return next((1 / rank for rank in _ranks(relevant, ranking)), 0.0)


def _binary_gain(relevant: Collection[str], ranking: Sequence[str]) -> float:
    return discounted(float(item in relevant) for item in ranking)


Groups = Sequence[frozenset[str]]


def _autorag(compute: Callable[[Groups, list[str], int], float]) -> Measure:
    """Return the measure of (groups, list, number of ids in all groups) as one of a query."""

    def measure(query: ToolQuery, cutoff: int | None) -> float | None:
        ranking = query.ranking[:cutoff]
        lists = [ranking, *query.groups]
        if not query.groups or not all(items and all(map(str.strip, items)) for items in lists):
            return None
        n_ids = sum(len(group) for group in query.groups)
        return compute([frozenset(group) for group in query.groups], ranking, n_ids)

    return measure


def _group_recall(groups: Groups, ranking: list[str], _: int) -> float:
    return sum(not group.isdisjoint(ranking) for group in groups) / len(groups)


def _group_precision(groups: Groups, ranking: list[str], _: int) -> float:
    return len(frozenset().union(*groups).intersection(ranking)) / len(ranking)


def _group_f1(groups: Groups, ranking: list[str], n_ids: int) -> float:
    recall = _group_recall(groups, ranking, n_ids)
    precision = _group_precision(groups, ranking, n_ids)
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def _group_mrr(groups: Groups, ranking: list[str], _: int) -> float:
    return sum(_reciprocal_rank(group, ranking) for group in groups) / len(groups)


def _group_map(groups: Groups, ranking: list[str], _: int) -> float:
    ranks = [_ranks(group, ranking) for group in groups]
    return sum(_precisions(each) / max(len(each), 1) for each in ranks) / len(groups)


def _group_ndcg(groups: Groups, ranking: list[str], n_ids: int) -> float:
    gained = _binary_gain(frozenset().union(*groups), ranking)
    return gained / discounted([1.0] * min(n_ids, len(ranking)))


AUTORAG = Dialect(
    name="autorag",
    package="AutoRAG 0.3.27",
    measures={
        "retrieval_f1": _autorag(_group_f1),
        "retrieval_recall": _autorag(_group_recall),
        "retrieval_precision": _autorag(_group_precision),
        "retrieval_ndcg": _autorag(_group_ndcg),
        "retrieval_mrr": _autorag(_group_mrr),
        "retrieval_map": _autorag(_group_map),
    },
    defaults=tuple(
        f"retrieval_{name}" for name in ("f1", "recall", "precision", "ndcg", "mrr", "map")
    ),
)


def _llamaindex(compute: Callable[[frozenset[str], list[str]], float]) -> Measure:
    """Return the measure of (relevant ids, list) as one of a query."""

    def measure(query: ToolQuery, cutoff: int | None) -> float:
        ranking = query.ranking[:cutoff]
        if not ranking:
            raise NoNumber("nothing was retrieved, LlamaIndex raises ValueError")
        if not query.relevant:
            raise NoNumber("no document is relevant, LlamaIndex raises ValueError")
        return compute(query.relevant, ranking)

    return measure


LLAMAINDEX = Dialect(
    name="llamaindex",
    package="llama-index-core 0.14.25",
    measures={
        "hit_rate": _llamaindex(lambda relevant, ranking: float(not relevant.isdisjoint(ranking))),
        "mrr": _llamaindex(_reciprocal_rank),
        "precision": _llamaindex(
            lambda relevant, ranking: len(relevant.intersection(ranking)) / len(set(ranking))
        ),
        "recall": _llamaindex(
            lambda relevant, ranking: len(relevant.intersection(ranking)) / len(relevant)
        ),
        "ap": _llamaindex(
            lambda relevant, ranking: _precisions(_ranks(relevant, ranking)) / len(relevant)
        ),
        "ndcg": _llamaindex(
            lambda relevant, ranking: (
                _binary_gain(relevant, ranking) / discounted([1.0] * len(relevant))
            )
        ),
    },
    defaults=("hit_rate", "mrr", "precision", "recall", "ap", "ndcg"),
)


def _beir_scores(query: ToolQuery) -> dict[str, float]:
    """Return the score of each document; of a repeated one the last, as a dict leaves it."""
    return {item: score for item, score in query.hits if item != query.query_id}


def _beir_trec(compute: Callable[[list[int], list[int], int], float]) -> Measure:
    """Return the measure of (grades of the first k, positive grades best first, k)."""

    def measure(query: ToolQuery, cutoff: int | None) -> float | None:
        if not query.in_run:
            return None
        positive = sorted((grade for grade in query.grades.values() if grade > 0), reverse=True)
        k = cutoff or 1
        with np.errstate(over="ignore"):
            scores = {item: float(np.float32(s)) for item, s in _beir_scores(query).items()}
        order = sorted(scores, key=lambda item: (scores[item], item), reverse=True)
        grades = [max(query.grades.get(item, 0), 0) for item in order[:k]]
        return compute(grades, positive, k) if positive else 0.0

    return measure


def _beir_custom(compute: Callable[[ToolQuery, list[str], int], float]) -> Measure:
    """Return the measure of (query, ids of the first k, k); a query that the run lacks adds 0."""

    def measure(query: ToolQuery, cutoff: int | None) -> float:
        k, scores = cutoff or 1, _beir_scores(query)
        ranking = sorted(scores, key=scores.__getitem__, reverse=True)[:k]
        return compute(query, ranking, k) if query.in_run else 0.0

    return measure


def _recall_cap(query: ToolQuery, ranking: list[str], k: int) -> float:
    if not query.relevant:
        raise NoNumber("no document is relevant, BEIR raises ZeroDivisionError")
    return len(query.relevant.intersection(ranking)) / min(len(query.relevant), k)


def _beir_mean(data: ToolInput, metric: ToolMetric, per_query: Values) -> float:
    """Return the rounded mean, over the queries that this metric's part of BEIR divides by."""
    values = [value for value in per_query.values() if value is not None]
    divisor = len(values)
    if metric.measure in _BEIR_CUSTOM:
        if data.strangers and metric.measure != "Hole":
            what = "stands in the run but not in the qrels, BEIR raises KeyError"
            raise NoNumber(f"query '{data.strangers[0].query_id}' {what}")
        measure = BEIR.measures[metric.measure]
        values += [measure(query, metric.cutoff) or 0.0 for query in data.strangers]
        divisor = len(data.judged)
    elif not values:
        raise NoNumber("the run names no query of the qrels")
    # Added one by one, as BEIR does: an exact sum can round the other way.
    return round(sum(values) / divisor, BEIR_DECIMALS)


BEIR = Dialect(
    name="beir",
    package="beir 2.2.0",
    measures={
        "NDCG": _beir_trec(
            lambda grades, positive, k: discounted(grades) / discounted(positive[:k])
        ),
        "MAP": _beir_trec(
            lambda grades, positive, _: (
                _precisions([rank for rank, grade in enumerate(grades, 1) if grade]) / len(positive)
            )
        ),
        "Recall": _beir_trec(lambda grades, positive, _: sum(map(bool, grades)) / len(positive)),
        "P": _beir_trec(lambda grades, _, k: sum(map(bool, grades)) / k),
        "MRR": _beir_custom(lambda query, ranking, _: _reciprocal_rank(query.relevant, ranking)),
        "R_cap": _beir_custom(_recall_cap),
        "Hole": _beir_custom(
            lambda query, ranking, k: sum(item not in query.judged_anywhere for item in ranking) / k
        ),
        "Accuracy": _beir_custom(
            lambda query, ranking, _: float(not query.relevant.isdisjoint(ranking))
        ),
    },
    defaults=("NDCG@10", "MAP@10", "Recall@10", "P@10", "MRR@10"),
    needs_cutoff=True,
    mean=_beir_mean,
)


def _context_precision(query: ToolQuery, cutoff: int | None) -> float | None:
    if not query.in_run:
        return None
    ranks = _ranks(query.relevant, query.ranking[:cutoff])
    return _precisions(ranks) / (len(ranks) + 1e-10)


RAGAS = Dialect(
    name="ragas",
    package="ragas 0.4.3",
    measures={
        "llm_context_precision_with_reference": _context_precision,
        "llm_context_precision_without_reference": _context_precision,
    },
    defaults=("llm_context_precision_with_reference",),
    warning=(
        "context precision divides by what is relevant among the retrieved, so what was missed "
        "costs nothing; and verdicts of a model need calibration. Without a reference the answer "
        "is taken for the truth: a wrong one makes the passages right that misled it"
    ),
)
