"""The metrics of BEIR, as beir 2.2.0 computes them (https://github.com/beir-cellar/beir).

``beir/retrieval/evaluation.py`` and ``custom_metrics.py``. A hit whose id is the query's own is
dropped. NDCG, MAP, Recall and P are those of pytrec_eval, which rounds scores to 32 bits and puts
the higher id first where they are equal; a query that the run lacks is in no mean. MRR, R_cap, Hole
and Accuracy keep the order of the run among equal scores, and divide by all queries of the qrels.
Means are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_assets.errors import UsageError
from rag_assets.evaluation.dialects.tools import (
    Dialect,
    NoNumber,
    Outcome,
    ToolInput,
    ToolQuery,
    discounted,
    precisions,
    reciprocal_rank,
)
from rag_assets.evaluation.metric_names import Metric

DECIMALS = 5


class _Cut(NamedTuple):
    """The first ``k`` hits of a query, and its grades; ``judged`` are documents of any query."""

    ranking: Sequence[str]
    query: ToolQuery
    k: int
    judged: frozenset[str]

    @property
    def grades(self) -> list[int]:
        """The grade of each hit, best rank first; 0 where it has none or a negative one."""
        return [max(self.query.grades.get(item, 0), 0) for item in self.ranking]

    @property
    def n_relevant(self) -> int:
        """How many hits are relevant."""
        return len(self.query.relevant.intersection(self.ranking))


def _ndcg(cut: _Cut) -> float:
    positive = (grade for grade in cut.query.grades.values() if grade > 0)
    return discounted(cut.grades) / discounted(sorted(positive, reverse=True)[: cut.k])


def _average_precision(cut: _Cut) -> float:
    ranks = [rank for rank, grade in enumerate(cut.grades, 1) if grade]
    return precisions(ranks) / len(cut.query.relevant)


def _recall_cap(cut: _Cut) -> float:
    if not cut.query.relevant:
        what = "no document is relevant, BEIR raises ZeroDivisionError"
        raise NoNumber(f"query '{cut.query.query_id}': {what}")
    return cut.n_relevant / min(len(cut.query.relevant), cut.k)


_Measure = Callable[[_Cut], float]

_TREC: Mapping[str, _Measure] = {
    "NDCG": _ndcg,
    "MAP": _average_precision,
    "Recall": lambda cut: cut.n_relevant / len(cut.query.relevant),
    "P": lambda cut: cut.n_relevant / cut.k,
}
_CUSTOM: Mapping[str, _Measure] = {
    "MRR": lambda cut: reciprocal_rank(cut.query.relevant, cut.ranking),
    "R_cap": _recall_cap,
    "Hole": lambda cut: sum(item not in cut.judged for item in cut.ranking) / cut.k,
    "Accuracy": lambda cut: float(cut.n_relevant > 0),
}


@dataclass(frozen=True)
class Beir(Dialect):
    """BEIR: a metric needs a cut-off, and its two kinds have means of their own."""

    def parse(self, name: str) -> Metric:
        """Return the metric that ``name`` means, which must have a cut-off."""
        metric = super().parse(name)
        if metric.cutoff is None:
            measure = metric.measure
            raise UsageError(f"dialect {self.name}: '{name}' needs a cut-off: {measure}@10")
        return metric

    def outcome(self, data: ToolInput, metric: Metric) -> Outcome:
        """Return BEIR's number and its value for each query of the labels, which is not rounded."""
        measure, k = metric.measure, metric.cutoff or 1
        judged = frozenset(item for query in data.judged for item in query.grades)

        def value(query: ToolQuery) -> float | None:
            if not query.in_run:
                return None if measure in _TREC else 0.0
            if measure in _TREC:
                cut = _Cut(_by_score_in_32_bits(query)[:k], query, k, judged)
                return _TREC[measure](cut) if query.relevant else 0.0
            return _CUSTOM[measure](_Cut(_by_score(query)[:k], query, k, judged))

        values: dict[str, float | None] = {query.query_id: None for query in data.judged}
        try:
            for query in data.judged:
                values[query.query_id] = value(query)
            numbers = [number for number in values.values() if number is not None]
            if measure in _TREC:
                return Outcome(_mean(numbers, len(numbers)), values)
            for query in data.strangers:
                if measure != "Hole":
                    what = "is in the run but not in the qrels, BEIR raises KeyError"
                    raise NoNumber(f"query '{query.query_id}' {what}")
                numbers.append(value(query) or 0.0)
            return Outcome(_mean(numbers, len(data.judged)), values)
        except NoNumber as error:
            return Outcome(None, values, str(error))


def _mean(numbers: Sequence[float], divisor: int) -> float:
    """Return the rounded mean. Added one by one, as BEIR does: an exact sum can round otherwise."""
    if not numbers:
        raise NoNumber("the run names no query of the qrels")
    return round(sum(numbers) / divisor, DECIMALS)


def _by_score(query: ToolQuery) -> list[str]:
    scores = {item: score for item, score in query.scores.items() if item != query.query_id}
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _by_score_in_32_bits(query: ToolQuery) -> list[str]:
    with np.errstate(over="ignore"):
        rounded = {item: float(np.float32(score)) for item, score in query.scores.items()}
    items = (item for item in rounded if item != query.query_id)
    return sorted(items, key=lambda item: (rounded[item], item), reverse=True)


BEIR = Beir(
    name="beir",
    package="beir 2.2.0",
    measures={**_TREC, **_CUSTOM},
    defaults=("NDCG@10", "MAP@10", "Recall@10", "P@10", "MRR@10"),
)
