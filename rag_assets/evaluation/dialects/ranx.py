"""ranx: ``evaluate(Qrels, Run, ..., make_comparable=True)``.

Source: ``ranx/metrics/`` of ranx 0.3.21 (https://github.com/AmenRa/ranx). Without
``make_comparable`` it refuses files that name different queries; with it, a query that the run
lacks is an empty list, one that the qrels lack is dropped, and one without a relevant document
scores 0. Lists are read by score descending. With R documents of at least the level (``-l2``,
default 1), the list cut at k, or whole:

- hits; hit_rate; mrr; precision: hits / k (whole list: / its length); recall: hits / R.
- f1: harmonic mean of these two; r-precision: hits in the first R / R.
- map: sum of the precision at each relevant rank / R.
- dcg, ndcg: gain = grade; dcg_burges, ndcg_burges: 2^grade - 1; the ideal is cut at k too.
- bpref: like trec_eval, but NaN without a judged document below the level. A query without a
  relevant document breaks off the parallel loop, so that others are 0 by chance: no number here.
- rbp.95: (1 - p) times the sum of grade * p^(rank - 1): the grade itself, so it can exceed 1.

Equal scores are ordered by a quicksort that is not stable from 16 documents on; up to 15, they
stay in the order of the run, and so they do here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from rag_assets.errors import UsageError
from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Measure,
    NoNumber,
    ToolMetric,
    ToolQuery,
    discounted,
)

LARGEST_STABLE = 15
"""Longest list that its sort keeps in order: below it, numba's quicksort is an insertion sort."""

_NAME = re.compile(
    r"(?P<measure>rbp)\.(?P<digits>[0-9]+)(?:-l(?P<rbp_level>[0-9]+))?"
    r"|(?P<other>[a-z][a-z0-9_-]*?)(?:@(?P<cutoff>[0-9]+))?(?:-l(?P<level>[0-9]+))?"
)


def run_order(query: ToolQuery) -> list[str]:
    """Return the ids by score descending; equal scores stay in the order of the run."""
    return sorted(query.scores, key=query.scores.__getitem__, reverse=True)


@dataclass(frozen=True)
class _Lists:
    """Grades along the first k (0: below the level), grades of all relevant, and k."""

    gains: list[int]
    ideal: list[int]
    k: int

    @property
    def hits(self) -> int:
        return sum(map(bool, self.gains))


def _measure(compute: Callable[[_Lists], float]) -> Measure:
    def measure(query: ToolQuery, metric: ToolMetric) -> float:
        ranking = run_order(query)
        relevant = {d: grade for d, grade in query.grades.items() if grade >= metric.level}
        k = metric.cutoff or len(ranking)
        gains = [relevant.get(item, 0) for item in ranking[:k]]
        ideal = sorted(relevant.values(), reverse=True)[: metric.cutoff]
        if not relevant or not ranking:
            return 0.0
        return compute(_Lists(gains, ideal, k)) if ideal else 0.0

    return measure


def _over_all(compute: Callable[[_Lists, int], float]) -> Measure:
    """Return a measure that needs R, which the cut ideal list does not tell."""

    def measure(query: ToolQuery, metric: ToolMetric) -> float | None:
        r = sum(grade >= metric.level for grade in query.grades.values())
        return _measure(lambda lists: compute(lists, r))(query, metric)

    return measure


def _f1(lists: _Lists, r: int) -> float:
    precision, recall = lists.hits / lists.k, lists.hits / r
    return 2 * precision * recall / (precision + recall) if lists.hits else 0.0


def _mrr(lists: _Lists) -> float:
    return next((1 / rank for rank, gain in enumerate(lists.gains, 1) if gain), 0.0)


def _map(lists: _Lists, r: int) -> float:
    ranks = [rank for rank, gain in enumerate(lists.gains, 1) if gain]
    return sum(nth / rank for nth, rank in enumerate(ranks, 1)) / r


def _r_precision(query: ToolQuery, metric: ToolMetric) -> float | None:
    r = sum(grade >= metric.level for grade in query.grades.values())
    whole = replace(metric, cutoff=r or None)
    return _over_all(lambda lists, r: lists.hits / r)(query, whole)


def _burges(gains: list[int]) -> float:
    return discounted(2**gain - 1 for gain in gains)


def _bpref(query: ToolQuery, metric: ToolMetric) -> float:
    r = sum(grade >= metric.level for grade in query.grades.values())
    n = len(query.grades) - r
    if r == 0:
        raise NoNumber("no document is relevant, ranx breaks off and leaves other queries at 0")
    judged = [query.grades[item] for item in run_order(query) if item in query.grades]
    hits = [position for position, grade in enumerate(judged) if grade >= metric.level]
    if not hits:
        return 0.0
    if n == 0:
        raise NoNumber("no document is judged not relevant, ranx gives NaN")
    above = [min(position - nth, r) for nth, position in enumerate(hits)]
    return math.fsum(1 - wrong / min(r, n) for wrong in above) / r


def _rbp(query: ToolQuery, metric: ToolMetric) -> float:
    p = metric.persistence or 0.0
    relevant = {d: grade for d, grade in query.grades.items() if grade >= metric.level}
    gains = [relevant.get(item, 0) for item in run_order(query)]
    return (1 - p) * math.fsum(gain * p**position for position, gain in enumerate(gains))


class Ranx(Dialect):
    """ranx's metrics."""

    name = "ranx"
    package = "ranx 0.3.21"
    measures: ClassVar[Mapping[str, Measure]] = {
        "hits": _measure(lambda lists: float(lists.hits)),
        "hit_rate": _measure(lambda lists: float(lists.hits > 0)),
        "precision": _measure(lambda lists: lists.hits / lists.k),
        "recall": _over_all(lambda lists, r: lists.hits / r),
        "f1": _over_all(_f1),
        "r-precision": _r_precision,
        "mrr": _measure(_mrr),
        "map": _over_all(_map),
        "dcg": _measure(lambda lists: discounted(lists.gains)),
        "dcg_burges": _measure(lambda lists: _burges(lists.gains)),
        "ndcg": _measure(lambda lists: discounted(lists.gains) / discounted(lists.ideal)),
        "ndcg_burges": _measure(lambda lists: _burges(lists.gains) / _burges(lists.ideal)),
        "bpref": _bpref,
        "rbp": _rbp,
    }
    defaults = ("hit_rate@10", "precision@10", "recall@10", "f1@10", "mrr@10", "map@10", "ndcg@10")
    counterparts: ClassVar[Mapping[str, str]] = {
        "hit_rate": "hit_rate",
        "precision": "precision",
        "recall": "recall",
        "f1": "f1",
        "r_precision": "r-precision",
        "mrr": "mrr",
        "map": "map",
        "ndcg": "ndcg",
        "ndcg_exp": "ndcg_burges",
        "bpref": "bpref",
    }

    def parse(self, name: str) -> ToolMetric:
        """Return the metric of ``ndcg@10``, ``map@100-l2`` or ``rbp.95``.

        Raises:
            UsageError: ranx has no such metric.
        """
        match = _NAME.fullmatch(name.strip())
        if match is None:
            return super().parse(name)
        if match["other"] == "rbp":
            raise UsageError(f"dialect ranx: '{name}' needs its persistence, such as rbp.95")
        if match["measure"]:
            p = float(f"0.{match['digits']}")
            level = int(match["rbp_level"] or 1)
            return ToolMetric(name.strip(), "rbp", level=_level(level, name), persistence=p)
        plain = match["other"] + (f"@{match['cutoff']}" if match["cutoff"] else "")
        metric = super().parse(plain)
        return replace(metric, name=name.strip(), level=_level(int(match["level"] or 1), name))

    def order(self, query: ToolQuery) -> list[str]:
        """Return the ids by score descending; equal scores stay in the order of the run."""
        return run_order(query)


def _level(level: int, name: str) -> int:
    if level < 1:
        raise UsageError(f"dialect ranx: '{name}': the level must be at least 1")
    return level
