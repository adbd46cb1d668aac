"""How things stand: the estimated leaderboard, what is decided, and how much more decides it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.sampling.confidence_sequence import decisions, minutes
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.labels.sampling.judgment_log import LoggedJudgment
from rag_assets.labels.sampling.label_sample import LabelSample

TARGET = "these questions and this pool"


def standing(
    sample: LabelSample, metric: Metric, lines: Sequence[LoggedJudgment], level: float = 0.95
) -> dict[str, Any]:
    """Return what the labels so far say, as the page shows it.

    Args:
        sample: the pool with its labels.
        metric: ``dcg@k`` or ``precision@k``.
        lines: of the log, for the pace.
        level: of each interval, and of each pair over all looks together.

    Raises:
        NotEstimable: the metric is another one.
    """
    found = {"metric": str(metric), "level": level, "target": TARGET, "systems": [], "pairs": []}
    n_labels = int(sample.judged.sum() + sample.certain.sum())
    if n_labels == 0:
        return {**found, "more": None, "minutes": None, "labels": 0}
    rows = Estimator(sample, metric).estimates("items", level)
    systems = [
        {"name": name, "value": one.value, "low": _bound(one.low), "high": _bound(one.high)}
        for name, one in sorted(rows.items(), key=lambda row: (-row[1].value, row[0]))
    ]
    decided = decisions(sample, metric, level=level)
    pairs = [
        {
            "names": pair,
            "value": one.value,
            "low": _bound(one.low),
            "high": _bound(one.high),
            "decided": one.decided,
            "more": one.more,
        }
        for pair, one in decided.items()
    ]
    more = max((one.more for one in decided.values()), default=0)
    time = minutes(lines, more)
    return {
        **found,
        "systems": systems,
        "pairs": pairs,
        "more": more,
        "minutes": None if time is None else math.ceil(time),
        "labels": n_labels,
    }


def _bound(value: float) -> float | None:
    """Return a number that JSON has; None: no bound yet."""
    return value if math.isfinite(value) else None
