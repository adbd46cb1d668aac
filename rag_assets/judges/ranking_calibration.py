"""Metrics of retrievers by a judge's grades, calibrated with what people say of passages.

Two samples of labels, which are never mixed:

- *whole questions*, drawn at random, of which every passage of the pool is labelled: any metric of
  a question has a value by people's grades and one by the judge's, and PPI++ joins the two
  (:mod:`.calibration`). A question without a relevant passage counts 0.
- *single passages*, drawn with known probabilities (:mod:`rag_assets.labels.sampling`): metrics
  that are sums over passages, with the judge's grades in the working values.

The items are merged spans of all retrievers; the relevant ones among them are all that is known to
be relevant, so the values speak of this pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.judges.calibration import JUDGED, Row
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.sampling.design import Design, new_design
from rag_assets.labels.sampling.estimates import Estimate, Estimator, no_interval_text
from rag_assets.labels.sampling.judgment_log import LoggedJudgment, drawn_items
from rag_assets.labels.sampling.label_pool import (
    PLACE,
    Floats,
    LabelPool,
    by_place,
    gains,
    same_passage,
    unit_name,
)
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample
from rag_assets.labels.sampling.standing import finite
from rag_assets.schemas import RELEVANT_UNITS, RUNS

SAMPLED = ("precision", "dcg")
"""What a sample of single passages estimates."""

WITH_VERDICTS = "sampled passages, verdicts as control variate"

Passages = Mapping[str, pa.Table]
"""Retriever -> table of :data:`rag_assets.schemas.PASSAGES`, as deep as is judged."""


class Grades(NamedTuple):
    """What somebody says of the items of a pool, shape (items,).

    Attributes:
        values: NaN where there is no grade.
        is_open: whether nobody was asked.
    """

    values: Floats
    is_open: np.ndarray[Any, np.dtype[np.bool_]]


def verdict_grades(pool: LabelPool, verdicts: pa.Table) -> Grades:
    """Return the highest grade of the texts of each item; missing where one of them is.

    Args:
        pool: the items.
        verdicts: table of :data:`rag_assets.schemas.RELEVANCE_VERDICTS`.
    """
    columns = (verdicts[name].to_pylist() for name in ("query_id", *PLACE, "grade"))
    said = [(PooledUnit(*row[:4]), row[4]) for row in zip(*columns, strict=True)]
    return _grades(pool, said, np.maximum)


def label_grades(pool: LabelPool, labels: Iterable[LoggedJudgment]) -> Grades:
    """Return what people say of each item; of several lines on one the last counts."""
    last = {one.item: one.grade for one in labels}
    return _grades(pool, last.items(), np.fmax)


def _grades(
    pool: LabelPool,
    said: Iterable[tuple[PooledUnit, int | None]],
    join: Callable[[float, float], float],
) -> Grades:
    places = by_place(pool.items)
    values: dict[int, float] = {}
    for span, grade in said:
        value = np.nan if grade is None else float(grade)
        for near in places.get(span[:2], ()):
            if same_passage(span, pool.items[near]):
                values[near] = float(join(values.get(near, value), value))
    numbers = np.array([values.get(n, np.nan) for n in range(len(pool.items))], np.float64)
    return Grades(numbers, np.array([n not in values for n in range(len(pool.items))], np.bool_))


def judged_rankings(
    passages: Passages,
    pool: LabelPool,
    verdicts: Grades,
    labels: Grades,
    metrics: Sequence[Metric],
) -> dict[tuple[str, Metric], pa.Table]:
    """Return what a judge and people say of each question's ranking.

    Args:
        passages: what the retrievers hand over.
        pool: of these passages.
        verdicts: the judge's grades.
        labels: people's.
        metrics: with their cut-off.

    Returns:
        (retriever, metric) -> table of :data:`rag_assets.judges.calibration.JUDGED`; ``answer`` is
        the ranking itself.
    """
    by_judge, by_people = (_values(pool, one.values, metrics) for one in (verdicts, labels))
    lacking, unsure = (
        _questions_with(pool, np.isnan(one.values) & more)
        for one, more in ((verdicts, True), (labels, ~labels.is_open))
    )
    is_open = _questions_with(pool, labels.is_open)
    tables = {}
    for name in passages:
        rankings = _rankings(passages[name], pool.question_ids)
        for metric in metrics:
            verdict, label = by_judge[name, metric], by_people[name, metric]
            verdict = np.where(lacking, np.nan, verdict)
            label = np.where(is_open | unsure, np.nan, label)
            columns = [
                pa.array(pool.question_ids, pa.string()),
                pa.array([1] * len(pool.question_ids), pa.int32()),
                pa.array(rankings, pa.string()),
                pa.array(verdict, from_pandas=True),
                pa.array(label, from_pandas=True),
                pa.array(is_open.astype(np.float64)),
            ]
            tables[name, metric] = pa.Table.from_arrays(columns, schema=JUDGED)
    return tables


def _questions_with(pool: LabelPool, flags: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found = np.zeros(len(pool.question_ids), np.bool_)
    found[pool.question[flags & pool.counted]] = True
    return found


def _rankings(table: pa.Table, question_ids: Sequence[str]) -> list[str]:
    places: dict[str, list[str]] = {name: [] for name in question_ids}
    ordered = table.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    columns = (ordered[name].to_pylist() for name in ("query_id", *PLACE))
    for query_id, *place in zip(*columns, strict=True):
        if query_id in places:
            places[query_id].append(unit_name(tuple(place)))
    return ["\n".join(found) for found in places.values()]


def _values(
    pool: LabelPool, grades: Floats, metrics: Sequence[Metric]
) -> dict[tuple[str, Metric], Floats]:
    """Return the metrics of all questions by some grades; a question of no relevant item has 0."""
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
    found = query_metrics(runs, units, dict.fromkeys(runs, "pool"), queries, cells, metrics)
    values = {}
    for name in pool.systems:
        for metric in metrics:
            table = found[name, metric.cutoff or 0]
            columns = (table[c].to_pylist() for c in ("query_id", metric.column))
            by_query = dict(zip(*columns, strict=True))
            numbers = [by_query[one] or 0.0 for one in pool.question_ids]
            values[name, metric] = np.array(numbers, np.float64)
    return values


def _run(pool: LabelPool, system: int) -> pa.Table:
    """Return a system's ranking: a unit is an item, or ``item/n`` where it comes again."""
    rows: list[dict[str, object]] = []
    seen: Counter[int] = Counter()
    own = np.flatnonzero(pool.system == system)
    for place in sorted(own, key=lambda n: (pool.question[pool.item[n]], pool.rank[n])):
        item, rank = int(pool.item[place]), int(pool.rank[place])
        seen[item] += 1
        name = f"{item}/{seen[item]}" if seen[item] > 1 else str(item)
        query_id = pool.items[item].query_id
        unit = {"unit_id": name, "chunk_id": name, "document_id": pool.items[item].document_id}
        rows.append({"query_id": query_id, "rank": rank, "score": -float(rank), **unit})
    return RUNS.from_rows(rows)


def sampled_rows(
    pool: LabelPool,
    judgments: Sequence[LoggedJudgment],
    verdicts: Grades,
    k: int,
    level: float,
    *,
    clusters: Sequence[str],
    design: Design | None = None,
) -> list[Row]:
    """Return rows of :data:`rag_assets.schemas.CALIBRATED_MEANS` from a sample of passages.

    Args:
        pool: the items.
        judgments: the log of a sampler, with probabilities.
        verdicts: the judge's grades.
        k: the cut-off.
        level: of the intervals, which speak of questions like these.
        clusters: one name a question.
        design: by which the items were asked, whose items are the first of the pool; None: that
            of this pool from its beginning.
    """
    metrics = [Metric(name, k) for name in SAMPLED]
    weights = pool.weights(Metric("dcg", k))
    if design is None:
        design = new_design(pool.items, weights)
    else:
        design = design.with_systems(pool.items, weights, drawn_items(judgments))
    said = dict(zip(pool.items, verdicts.values.tolist(), strict=True))
    alone = label_sample(pool, design, judgments)
    with_judge = label_sample(pool, design, judgments, verdicts=said)
    rows = []
    for metric in metrics:
        pairs = [
            Estimator(one, metric, clusters).estimates("questions", level)
            for one in (with_judge, alone)
        ]
        raw = _raw(pool, metric, verdicts.values)
        rows += [
            _row(name, metric, raw[number], pairs[0][name], pairs[1][name], alone, verdicts, level)
            for number, name in enumerate(pool.systems)
        ]
    return rows


def _raw(pool: LabelPool, metric: Metric, grades: Floats) -> Floats:
    """Return the metric by the judge's grades alone; a missing one earns the mean of the others."""
    earned = gains(metric, grades)
    given = earned[~np.isnan(earned)]
    neutral = float(given.mean()) if given.size else 0.0
    filled = np.where(np.isnan(earned), neutral, earned)
    return np.asarray(pool.weights(metric) @ filled / len(pool.question_ids))


def _row(
    name: str,
    metric: Metric,
    raw: float,
    found: Estimate,
    human: Estimate,
    sample: LabelSample,
    verdicts: Grades,
    level: float,
) -> Row:
    enough = sample.judged.any()
    reason = None if enough else "no passage of the sample has a label"
    if enough and not np.isfinite(found.error):
        reason = no_interval_text(found.n_no_chance)
    return {
        "name": name,
        "split": "all",
        "metric": str(metric),
        "judge": float(raw),
        "calibrated": found.value if enough else None,
        "low": finite(found.low) if enough else None,
        "high": finite(found.high) if enough else None,
        "human": human.value if enough else None,
        "human_low": finite(human.low) if enough else None,
        "human_high": finite(human.high) if enough else None,
        "confidence": level,
        "n": len(sample.pool.question_ids),
        "n_labels": found.n_labels,
        "n_cannot_tell": int(sample.cannot_tell.sum()),
        "n_missing": int((np.isnan(verdicts.values) & sample.pool.counted).sum()),
        "weight": None,
        "method": WITH_VERDICTS,
        "reason": reason,
    }
