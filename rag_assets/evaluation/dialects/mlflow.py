"""MLflow: ``precision_at_k``, ``recall_at_k`` and ``ndcg_at_k`` of ``mlflow.evaluate``.

Source: ``mlflow/metrics/metric_definitions.py`` of mlflow-skinny 3.17.2
(https://github.com/mlflow/mlflow); nDCG by ``sklearn.metrics.ndcg_score``. With the list cut at k,
of length n <= k, and R relevant ids, all binary:

- precision: ranks that hold a relevant id, repeated ones too / n; 0 for an empty list.
- recall: different relevant ids / R.
- ndcg: a gain at every rank that holds a relevant id; a repeated one counts as one more relevant
  document, so that the ideal is min(R + repetitions, n) ones.

Without a relevant id recall and ndcg are 1 when nothing was retrieved either, else 0; such a query
is part of the mean. (In recall and ndcg "nothing" is meant before or after the cut, the same.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Measure,
    ToolMetric,
    ToolQuery,
    discounted,
)

Relevant = frozenset[str]


def _measure(compute: Callable[[Relevant, list[str]], float]) -> Measure:
    def measure(query: ToolQuery, metric: ToolMetric) -> float:
        return compute(query.relevant, query.ranking[: metric.cutoff])

    return measure


def _precision(relevant: Relevant, ranking: list[str]) -> float:
    return sum(item in relevant for item in ranking) / len(ranking) if ranking else 0.0


def _recall(relevant: Relevant, ranking: list[str]) -> float:
    if not relevant:
        return float(not ranking)
    return len(relevant.intersection(ranking)) / len(relevant)


def _ndcg(relevant: Relevant, ranking: list[str]) -> float:
    if not relevant or not ranking:
        return float(not relevant and not ranking)
    hits = [item for item in ranking if item in relevant]
    n_ideal = min(len(relevant) + len(hits) - len(set(hits)), len(ranking))
    gained = discounted(float(item in relevant) for item in ranking)
    return gained / discounted([1.0] * n_ideal)


class MlFlow(Dialect):
    """MLflow's retrieval metrics."""

    name = "mlflow"
    package = "mlflow-skinny 3.17.2"
    needs_cutoff = True
    pattern = re.compile(r"(?P<measure>.+?)(?:_at_(?P<cutoff>[0-9]+))?")
    measures: ClassVar[Mapping[str, Measure]] = {
        "precision": _measure(_precision),
        "recall": _measure(_recall),
        "ndcg": _measure(_ndcg),
    }
    defaults = ("precision_at_10", "recall_at_10", "ndcg_at_10")
    counterparts: ClassVar[Mapping[str, str]] = {
        "precision": "precision",
        "recall": "recall",
        "ndcg": "ndcg",
    }

    def name_of(self, measure: str, cutoff: int | None) -> str:
        """Return ``ndcg_at_5``."""
        return f"{measure}_at_{cutoff}"
