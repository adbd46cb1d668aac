"""Metrics of answers, one a file; :data:`METRICS` lists them by name."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assets.answers.metrics.abstention import Abstained, AbstentionF1
from rag_assets.answers.metrics.base import AnswerMetric
from rag_assets.answers.metrics.evidence_cited import (
    EvidenceCited,
    EvidenceCitedPrecision,
    EvidenceCitedRecall,
)
from rag_assets.answers.metrics.exact_match import ExactMatch
from rag_assets.answers.metrics.groundedness import Grounded
from rag_assets.answers.metrics.token_f1 import TokenF1
from rag_assets.errors import UsageError, allowed_names

METRICS: dict[str, type[AnswerMetric]] = {
    metric.name: metric
    for metric in (
        ExactMatch,
        TokenF1,
        Abstained,
        AbstentionF1,
        EvidenceCited,
        EvidenceCitedPrecision,
        EvidenceCitedRecall,
        Grounded,
    )
}
"""Name of a metric -> its class, in the order in which columns stand."""


def metrics_of(names: Iterable[str]) -> list[AnswerMetric]:
    """Return the metrics of these names, each once.

    Raises:
        UsageError: one is unknown.
    """
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in METRICS:
            raise UsageError(f"unknown metric of answers {allowed_names(name, METRICS)}")
    return [METRICS[name]() for name in chosen]
