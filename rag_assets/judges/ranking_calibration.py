"""Metrics of retrievers by a judge's grades, beside those by people's: a value a question.

Of questions that were drawn at random people label every passage of the pool. So any metric of a
question has a value by their grades and one by the judge's, and PPI++ joins the two
(:mod:`.calibration`). A question without a relevant passage counts 0.

The items are merged spans of all retrievers; the relevant ones among them are all that is known to
be relevant, so the values speak of this pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.judges.calibration import JUDGED
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.sampling.judgment_log import LoggedJudgment
from rag_assets.labels.sampling.label_pool import (
    PLACE,
    Flags,
    Floats,
    LabelPool,
    by_place,
    same_passage,
)
from rag_assets.schemas import RELEVANT_UNITS, RUNS


class Grades(NamedTuple):
    """Grades of the items of a pool, shape (items,).

    Attributes:
        values: NaN where there is no grade.
        is_open: whether nobody was asked.
    """

    values: Floats
    is_open: Flags


def verdict_grades(pool: LabelPool, verdicts: pa.Table) -> Grades:
    """Return the highest grade of the texts of each item; missing where one of them is.

    Args:
        pool: the items.
        verdicts: table of :data:`rag_assets.schemas.RELEVANCE_VERDICTS`.
    """
    columns = (verdicts[name].to_pylist() for name in ("query_id", *PLACE, "grade"))
    grades = [(PooledUnit(*row[:4]), row[4]) for row in zip(*columns, strict=True)]
    return _grades(pool, grades, np.maximum)


def label_grades(pool: LabelPool, labels: Iterable[LoggedJudgment]) -> Grades:
    """Return people's grade of each item; of several lines on an item the last counts."""
    last = {label.item: label.grade for label in labels}
    return _grades(pool, last.items(), np.fmax)


def _grades(
    pool: LabelPool,
    graded: Iterable[tuple[PooledUnit, int | None]],
    join: Callable[[float, float], float],
) -> Grades:
    places = by_place(pool.items)
    values: dict[int, float] = {}
    for span, grade in graded:
        value = np.nan if grade is None else float(grade)
        for near in places.get(span[:2], ()):
            if same_passage(span, pool.items[near]):
                values[near] = float(join(values.get(near, value), value))
    numbers = np.array([values.get(n, np.nan) for n in range(len(pool.items))], np.float64)
    return Grades(numbers, np.array([n not in values for n in range(len(pool.items))], np.bool_))


def judged_rankings(
    pool: LabelPool, verdicts: Grades, labels: Grades, metrics: Sequence[Metric]
) -> dict[tuple[str, Metric], pa.Table]:
    """Return each question's metrics by a judge's grades and by people's.

    Args:
        pool: the passages of all retrievers.
        verdicts: the judge's grades.
        labels: people's grades.
        metrics: with their cut-off.

    Returns:
        (retriever, metric) -> table of :data:`rag_assets.judges.calibration.JUDGED`; its ``answer``
        is null.
    """
    is_open = _questions_with(pool, labels.is_open)
    unsure = _questions_with(pool, np.isnan(labels.values))
    unjudged = _questions_with(pool, np.isnan(verdicts.values))
    by_judge, by_people = (_values(pool, one.values, metrics) for one in (verdicts, labels))
    n = len(pool.question_ids)
    tables = {}
    for cell, values in by_judge.items():
        columns = [
            pa.array(pool.question_ids, pa.string()),
            pa.array([1] * n, pa.int32()),
            pa.nulls(n, pa.string()),
            pa.array(np.where(unjudged, np.nan, values), from_pandas=True),
            pa.array(np.where(unsure, np.nan, by_people[cell]), from_pandas=True),
            pa.array(is_open.astype(np.float64)),
        ]
        tables[cell] = pa.Table.from_arrays(columns, schema=JUDGED)
    return tables


def _questions_with(pool: LabelPool, flags: Flags) -> Flags:
    """Return which questions have an item with the flag."""
    questions = np.zeros(len(pool.question_ids), np.bool_)
    questions[pool.question[flags & pool.counted]] = True
    return questions


def _values(
    pool: LabelPool, grades: Floats, metrics: Sequence[Metric]
) -> dict[tuple[str, Metric], Floats]:
    """Return the metrics of all questions by some grades; without a relevant item they are 0."""
    runs = {name: _run(pool, number) for number, name in enumerate(pool.systems)}
    units_of: dict[int, set[str]] = {number: {str(number)} for number in range(len(pool.items))}
    for run in runs.values():
        for unit in run["unit_id"].to_pylist():
            units_of[int(unit.split("/")[0])].add(unit)
    relevant: list[dict[str, object]] = [
        {"query_id": item.query_id, "evidence_id": str(number), "unit_id": unit, "grade": int(g)}
        for number, (item, g) in enumerate(zip(pool.items, grades, strict=True))
        if g > 0 and pool.counted[number]
        for unit in sorted(units_of[number])
    ]
    queries = pa.table({"query_id": pa.array(pool.question_ids, pa.string())})
    units = {"pool": RELEVANT_UNITS.from_rows(relevant)}
    cells = [(name, metric.cutoff or 0) for name in pool.systems for metric in metrics]
    metric_tables = query_metrics(runs, units, dict.fromkeys(runs, "pool"), queries, cells, metrics)
    values = {}
    for name in pool.systems:
        for metric in metrics:
            table = metric_tables[name, metric.cutoff or 0]
            columns = (table[c].to_pylist() for c in ("query_id", metric.column))
            by_query = dict(zip(*columns, strict=True))
            numbers = [by_query[query_id] or 0.0 for query_id in pool.question_ids]
            values[name, metric] = np.array(numbers, np.float64)
    return values


def _run(pool: LabelPool, system: int) -> pa.Table:
    """Return a system's ranking: a unit is an item, or ``item/n`` where it comes again."""
    rows: list[dict[str, object]] = []
    seen: Counter[int] = Counter()
    places = np.flatnonzero(pool.system == system)
    for place in sorted(places, key=lambda n: (pool.question[pool.item[n]], pool.rank[n])):
        item, rank = int(pool.item[place]), int(pool.rank[place])
        seen[item] += 1
        name = f"{item}/{seen[item]}" if seen[item] > 1 else str(item)
        query_id = pool.items[item].query_id
        unit = {"unit_id": name, "chunk_id": name, "document_id": pool.items[item].document_id}
        rows.append({"query_id": query_id, "rank": rank, "score": -float(rank), **unit})
    return RUNS.from_rows(rows)
