"""The metrics of all questions of one answerer, from its tables, and their means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from rag_assets.answers.cases import cases_of
from rag_assets.answers.metrics import METRICS, metrics_of
from rag_assets.answers.normalisation import Language
from rag_assets.answers.tables import ANSWER_METRICS
from rag_assets.evaluation.leaderboard import mean


def answer_metrics(
    answers: pa.Table,
    golds: pa.Table,
    contexts: pa.Table | None,
    names: Sequence[str],
    language: Language = "standard",
) -> pa.Table:
    """Return the metrics of every question.

    Args:
        answers: table of :data:`~rag_assets.answers.tables.ANSWERS`. A question that it
            lacks failed; one that ``golds`` lacks is not looked at.
        golds: table of :data:`~rag_assets.answers.tables.GOLDS`, one row a question.
        contexts: table of :data:`~rag_assets.answers.tables.ANSWER_CONTEXTS`; a question
            without a row had an empty context. None: the contexts are not known.
        names: of :data:`~rag_assets.answers.metrics.METRICS`.
        language: how texts become words.

    Returns:
        Table of :data:`~rag_assets.answers.tables.ANSWER_METRICS`, sorted by query id, with
        a column for each name; null where a metric is not defined.

    Raises:
        UsageError: a name is unknown.
    """
    metrics = metrics_of(names)
    cases = cases_of(answers, golds, contexts, language)
    columns = {
        "query_id": pa.array([case.question.query_id for case in cases], pa.string()),
        "failed": pa.array([case.answer is None for case in cases], pa.bool_()),
        "answerable": pa.array([case.question.answerable for case in cases], pa.bool_()),
    }
    for metric in metrics:
        values = [metric.of(case) for case in cases]
        columns[metric.name] = pa.array(values, pa.float64())
    return ANSWER_METRICS.check(pa.table(columns))


class AnswerMean(NamedTuple):
    """One metric over some questions: None without a question for which it is defined."""

    mean: float | None
    n: int


def answer_means(
    table: pa.Table, names: Iterable[str], weights: Mapping[str, float] | None = None
) -> dict[str, AnswerMean]:
    """Return the mean of every metric over the questions of a table.

    Args:
        table: of :func:`answer_metrics`.
        names: of its columns.
        weights: query id -> how much it counts; each 1 without them.
    """
    means = {}
    query_ids = table["query_id"].to_pylist()
    for name in names:
        metric, values = METRICS[name](), table[name].to_pylist()
        counts = [
            (weights or {}).get(query_id, 1.0) * (1.0 if v is None else metric.multiplicity(v))
            for query_id, v in zip(query_ids, values, strict=True)
        ]
        means[name] = AnswerMean(mean(values, counts), sum(v is not None for v in values))
    return means
