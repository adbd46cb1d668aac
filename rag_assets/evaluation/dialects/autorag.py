"""AutoRAG: lists of ids against groups of alternatives, over the whole list.

Source: ``autorag/evaluation/metric/retrieval.py`` and ``autorag/schema/metricinput.py`` of the
package AutoRAG 0.3.27 (https://github.com/Marker-Inc-Korea/AutoRAG). AutoRAG has no cut-off, its
lists end at the ``top_k`` of the retriever: ``retrieval_ndcg@5`` is its metric of the list cut at
5.

With the list of length n and G groups of ids:

- recall: groups with any id in the list / G.
- precision: *different* relevant ids in the list / n, which counts repetitions.
- f1: harmonic mean of the two.
- mrr: mean over groups of 1 / rank of the group's first id.
- map: mean over groups of the mean precision at each rank that holds an id of the group.
- ndcg: binary gain at every rank that holds a relevant id, repeated ones too; the ideal is
  min(ids in all groups, n) ones.

A query has no value, and is left out of the mean, when its list or its labels are empty or hold an
empty group or a blank id.
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

Groups = list[frozenset[str]]


def has_value(query: ToolQuery, cutoff: int | None) -> bool:
    """Return whether AutoRAG computes anything for a query."""
    lists = [query.ranking[:cutoff], *query.groups]
    complete = all(items and all(item.strip() for item in items) for items in lists)
    return bool(query.groups) and complete


def _measure(compute: Callable[[Groups, list[str], int], float]) -> Measure:
    """Return the measure of (groups, list, number of ids in all groups) as one of a query."""

    def measure(query: ToolQuery, metric: ToolMetric) -> float | None:
        if not has_value(query, metric.cutoff):
            return None
        groups = [frozenset(group) for group in query.groups]
        n_ids = sum(len(group) for group in query.groups)
        return compute(groups, query.ranking[: metric.cutoff], n_ids)

    return measure


def _recall(groups: Groups, ranking: list[str], _: int) -> float:
    return sum(not group.isdisjoint(ranking) for group in groups) / len(groups)


def _precision(groups: Groups, ranking: list[str], _: int) -> float:
    return len(frozenset().union(*groups).intersection(ranking)) / len(ranking)


def _f1(groups: Groups, ranking: list[str], n_ids: int) -> float:
    recall, precision = _recall(groups, ranking, n_ids), _precision(groups, ranking, n_ids)
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def _mrr(groups: Groups, ranking: list[str], _: int) -> float:
    firsts = [ranks[0] for group in groups if (ranks := _ranks(group, ranking))]
    return sum(1 / first for first in firsts) / len(groups)


def _map(groups: Groups, ranking: list[str], _: int) -> float:
    total = 0.0
    for group in groups:
        ranks = _ranks(group, ranking)
        total += sum(nth / rank for nth, rank in enumerate(ranks, 1)) / max(len(ranks), 1)
    return total / len(groups)


def _ndcg(groups: Groups, ranking: list[str], n_ids: int) -> float:
    relevant = frozenset().union(*groups)
    gained = discounted(float(item in relevant) for item in ranking)
    return gained / discounted([1.0] * min(n_ids, len(ranking)))


def _ranks(group: frozenset[str], ranking: list[str]) -> list[int]:
    return [rank for rank, item in enumerate(ranking, 1) if item in group]


class AutoRag(Dialect):
    """AutoRAG's retrieval metrics."""

    name = "autorag"
    package = "AutoRAG 0.3.27"
    measures: ClassVar[Mapping[str, Measure]] = {
        "retrieval_f1": _measure(_f1),
        "retrieval_recall": _measure(_recall),
        "retrieval_precision": _measure(_precision),
        "retrieval_ndcg": _measure(_ndcg),
        "retrieval_mrr": _measure(_mrr),
        "retrieval_map": _measure(_map),
    }
    defaults = tuple(measures)
