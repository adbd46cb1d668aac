"""How things stand: the estimated leaderboard, what is decided, and how much more decides it.

The page and ``rag-assets label --status`` say the same. Two targets, which are never mixed: each
estimate has an interval for *these questions and this pool*, and one for *questions like these*.
Decisions, and how much more is to be judged, speak of the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Any

from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.logs import JUDGED, LoggedJudgment
from rag_assets.labels.sampling.confidence_sequence import decisions
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.labels.sampling.label_sample import LabelSample

ITEMS, QUESTIONS = "these questions and this pool", "questions like these"

PRICE = (
    "A decision holds however often one looks. The price: at 8 judgments a question 66 % of the "
    "pairs more than 5 % apart were decided in a trial on Cranfield"
)

Row = dict[str, Any]


def sample_status(
    sample: LabelSample,
    metric: Metric,
    lines: Sequence[LoggedJudgment],
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> Row:
    """Return how things stand with one metric.

    The pace is that of ``lines``, ``clusters`` has one name a question (None: each is its own), and
    ``level`` is of each interval, and of each pair over all looks together.

    Returns:
        ``estimates``: one row a retriever, the best first, see :func:`estimate_rows`.
        ``differences``: one row a pair, the one that is ahead minus the other: ``retriever_a``,
        ``retriever_b``, ``value``; ``low``, ``high``, ``decided``, ``outside`` of
        :class:`.confidence_sequence.Decision`; how much more decides it, as below.
        ``more_judgments_low``, ``more_judgments_high``: that decide all pairs; None without a
        label. ``more_minutes_low``, ``more_minutes_high``: at the pace so far; None without one.
    """
    if not sample.is_estimable:
        return {"estimates": [], "differences": [], **_more(lines, None, None)}
    estimates = estimate_rows(sample, metric, clusters, level)
    order = [str(row["retriever"]) for row in estimates]
    pairs = decisions(sample, metric, level=level, pairs=list(combinations(order, 2)))
    differences = [
        {
            "metric": str(metric),
            "retriever_a": first,
            "retriever_b": second,
            "value": decision.value,
            "low": finite(decision.low),
            "high": finite(decision.high),
            "decided": decision.decided,
            "outside": decision.is_outside,
            **_more(lines, decision.more_low, decision.more_high),
        }
        for (first, second), decision in pairs.items()
    ]
    low = max((decision.more_low for decision in pairs.values()), default=0)
    high = max((decision.more_high for decision in pairs.values()), default=0)
    return {"estimates": estimates, "differences": differences, **_more(lines, low, high)}


def _more(lines: Sequence[LoggedJudgment], low: int | None, high: int | None) -> Row:
    return {
        "more_judgments_low": low,
        "more_judgments_high": high,
        "more_minutes_low": minutes(lines, low),
        "more_minutes_high": minutes(lines, high),
    }


def estimate_rows(
    sample: LabelSample, metric: Metric, clusters: Sequence[str] | None, level: float
) -> list[Row]:
    """Return one row a retriever, the best first.

    Returns:
        ``metric``, ``retriever``, ``value``; ``items_low``, ``items_high`` of :data:`ITEMS`;
        ``questions_low``, ``questions_high`` of :data:`QUESTIONS`; ``lowest``, ``highest``: with
        all "cannot tell" at the lowest and the highest gain; ``n_labels``, ``effective_labels``,
        ``n_no_chance``.
    """
    estimator = Estimator(sample, metric, clusters)
    of_questions = estimator.estimates("questions", level)
    of_items = estimator.estimates("items", level).items()
    return [
        {
            "metric": str(metric),
            "retriever": name,
            "value": one.value,
            "items_low": finite(one.low),
            "items_high": finite(one.high),
            "questions_low": finite(of_questions[name].low),
            "questions_high": finite(of_questions[name].high),
            "lowest": one.lowest,
            "highest": one.highest,
            "n_labels": one.n_labels,
            "effective_labels": one.effective_labels,
            "n_no_chance": one.n_no_chance,
        }
        for name, one in sorted(of_items, key=lambda pair: (-pair[1].value, pair[0]))
    ]


def minutes(lines: Sequence[LoggedJudgment], more: int | None) -> int | None:
    """Return how long so many judgments take at the pace so far; None where it is not known."""
    times = [line.seconds for line in lines if line.status == JUDGED and line.seconds]
    return math.ceil(more * median(times) / 60) if times and more is not None else None


def finite(value: float) -> float | None:
    """Return a number that JSON has; None: no bound yet."""
    return value if math.isfinite(value) else None
