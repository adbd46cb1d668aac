"""Measures that packages add: query by query, in Python."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.evaluation.measure import Evidence, JudgedRanking, RankingMeasure
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_inputs import Cell
from rag_assets.evaluation.metric_names import Metric

_Labels = Mapping[str, Sequence[tuple[str, str | None, int]]]
"""Query -> (evidence, unit, grade)."""


def added_metrics(
    runs: Mapping[str, pa.Table],
    relevant_units: Mapping[str, pa.Table],
    judged_by: Mapping[str, str],
    queries: Sequence[str],
    cells: Iterable[Cell],
    metrics: Sequence[Metric],
) -> dict[Cell, dict[str, list[float | None]]]:
    """Return (run, k) -> column -> the value of each query, in their order.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        relevant_units: name -> table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        judged_by: run -> the name of its relevant units.
        queries: ids.
        cells: the (run, k) pairs that are wanted.
        metrics: of measures that are a :class:`RankingMeasure`.

    Raises:
        UsageError: a measure fails, or gives what is no number from 0 to 1.
    """
    labels = {name: _labels(table) for name, table in relevant_units.items()}
    rankings = {name: _rankings(table) for name, table in runs.items()}
    measures = {metric: _measure(metric) for metric in metrics}
    columns: dict[Cell, dict[str, list[float | None]]] = {}
    for run, k in cells:
        judged = [
            judged_ranking(rankings[run].get(query, ()), labels[judged_by[run]].get(query, ()), k)
            for query in queries
        ]
        columns[run, k] = {
            metric.column: [
                _value(metric, measure, ranking, k, query)
                for query, ranking in zip(queries, judged, strict=True)
            ]
            for metric, measure in measures.items()
        }
    return columns


def judged_ranking(
    units: Sequence[str], labels: Sequence[tuple[str, str | None, int]], k: int
) -> JudgedRanking:
    """Return a ranking as its labels see it.

    Args:
        units: best first.
        labels: (evidence, unit that satisfies it, or None, grade).
        k: the cut-off.
    """
    ranks = {unit: rank for rank, unit in enumerate(units[:k], start=1)}
    grades: list[int | None] = [None] * len(ranks)
    evidences: dict[str, Evidence] = {}
    for name, unit, grade in labels:
        rank = ranks.get(unit) if unit is not None else None
        if rank is not None and grade >= 0:
            grades[rank - 1] = max(grade, grades[rank - 1] or 0)
        if grade > 0:
            evidence = evidences.get(name, Evidence(grade, None, 0))
            is_first = rank is not None and rank < (evidence.rank or math.inf)
            first = (rank, grade) if is_first else evidence[1:]
            evidences[name] = Evidence(max(grade, evidence.grade), *first)
    return JudgedRanking(grades, list(evidences.values()))


def _measure(metric: Metric) -> RankingMeasure:
    measure = MEASURE_TYPES[metric.measure].model_validate(dict(metric.params))
    if not isinstance(measure, RankingMeasure):
        raise TypeError(f"{metric.measure} is not computed query by query")
    return measure


def _labels(relevant_units: pa.Table) -> _Labels:
    labels = defaultdict(list)
    names = ("query_id", "evidence_id", "unit_id", "grade")
    columns = (relevant_units.column(name).to_pylist() for name in names)
    for query, *label in sorted(zip(*columns, strict=True), key=_no_none):
        labels[query].append(tuple(label))
    return labels


def _no_none(row: tuple[str, str, str | None, int]) -> tuple[object, ...]:
    return row[0], row[1], row[2] or "", row[3]


def _rankings(run: pa.Table) -> Mapping[str, Sequence[str]]:
    rankings = defaultdict(list)
    columns = (run.column(name).to_pylist() for name in ("query_id", "rank", "unit_id"))
    for query, _, unit in sorted(zip(*columns, strict=True)):
        rankings[query].append(unit)
    return rankings


def _value(
    metric: Metric, measure: RankingMeasure, ranking: JudgedRanking, k: int, query: str
) -> float | None:
    """Return the value of one query; None where nothing is relevant."""
    if not ranking.evidences:
        return None
    of = f"metric '{metric}' of {MEASURE_TYPES.owner(metric.measure)}"
    try:
        value = float(measure.value(ranking, k))
    except Exception as error:  # whatever the package does
        problem = f"failed on query '{query}': {type(error).__name__}: {error}"
        raise UsageError(f"{of} {problem}") from error
    if not 0 <= value <= 1:
        raise UsageError(f"{of} must lie from 0 to 1; found {value!r} for query '{query}'")
    return value
