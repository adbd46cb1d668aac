"""A sample of labels as a table: what an evaluation keeps of it, and estimates from that.

The probability of each item and its state tell everything that an estimate reads, so the log and
the design need not be there any more when two evaluations are compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from rag_assets.labels.pooling.pool import Judgment, PooledUnit
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.judgment_log import (
    CANNOT_TELL,
    JUDGED,
    SKIPPED,
    LoggedJudgment,
)
from rag_assets.labels.sampling.label_pool import pool_of
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample
from rag_assets.schemas import SAMPLED_LABELS
from rag_assets.store.canonical import canonical_json

CERTAIN, OPEN = "certain", "open"

_NO_CHANCE = 1e-12
_LARGEST = 700.0
"""A hazard that leaves no double to be asked with another probability than 1."""


def sample_table(sample: LabelSample) -> pa.Table:
    """Return the items of a sample, table of :data:`rag_assets.schemas.SAMPLED_LABELS`."""
    asked, clock = sample.asked, sample.clock
    judged = asked & ~np.isnan(sample.grades)  # also of questions that do not count now
    hazards = sample.design.hazards(clock) if np.isfinite(clock) else np.full(len(asked), _LARGEST)
    states = np.select(
        [sample.certain, judged, asked & sample.cannot_tell, asked],
        [CERTAIN, JUDGED, CANNOT_TELL, SKIPPED],
        OPEN,
    )
    with_grade = sample.certain | judged
    rows: list[dict[str, object]] = [
        {
            **item._asdict(),
            "state": str(state),
            "grade": int(grade) if known else None,
            "hazard": min(float(hazard), _LARGEST),
            "verdicts": verdicts,
        }
        for item, state, grade, known, hazard, verdicts in zip(
            *(sample.pool.items, states, sample.grades, with_grade, hazards, _verdicts(sample)),
            strict=True,
        )
    ]
    return SAMPLED_LABELS.from_rows(rows)


def _verdicts(sample: LabelSample) -> list[str | None]:
    """Return for each item source -> grade as JSON; None where nothing is known."""
    if sample.verdicts is None:
        return [None] * len(sample.pool.items)
    of_items = [
        {name: int(value) for name, value in zip(sample.sources, row, strict=True) if value >= 0}
        for row in sample.verdicts.T.tolist()
    ]
    return [canonical_json(said) if said else None for said in of_items]


def stored_sample(
    table: pa.Table, passages: Mapping[str, pa.Table], question_ids: Sequence[str], depth: int
) -> LabelSample:
    """Return the sample of a table, seen by some systems.

    Args:
        table: of :data:`rag_assets.schemas.SAMPLED_LABELS`.
        passages: system -> table of :data:`rag_assets.schemas.SAMPLED_PASSAGES`. What of them is in
            no item of the table had no chance to be asked.
        question_ids: all questions.
        depth: how many ranks count.
    """
    rows = table.to_pylist()
    items = [_unit(row) for row in rows]
    pool = pool_of(passages, question_ids, depth, items)
    hazards = np.zeros(len(pool.items))
    hazards[: len(items)] = [row["hazard"] for row in rows]
    states = np.array([row["state"] for row in rows] + [OPEN] * (len(pool.items) - len(items)))
    # A clock that stands at 1: what was asked came before, the rest comes then.
    numbers = np.where(np.isin(states, [JUDGED, CANNOT_TELL, SKIPPED]), hazards / 2, hazards)
    numbers = np.where(hazards > 0, numbers, _NO_CHANCE)
    design = Design(pool.items, numbers, np.stack([hazards, np.ones_like(hazards)]), (1.0,))
    lines = [
        LoggedJudgment(_unit(row), row["grade"], row["state"], 0.5)
        for row in rows
        if row["state"] not in (CERTAIN, OPEN)
    ]
    for row in rows:
        # An evaluation of an earlier version has no such column.
        for source, grade in json.loads(row.get("verdicts") or "{}").items():
            lines.append(LoggedJudgment(_unit(row), int(grade), source=source))
    earlier = [
        Judgment(_unit(row), row["grade"], CERTAIN, 0) for row in rows if row["state"] == CERTAIN
    ]
    return label_sample(pool, design, lines, [*earlier, *earlier_labels(passages)])


def earlier_labels(passages: Mapping[str, pa.Table]) -> list[Judgment]:
    """Return the labels of the dataset of some systems' passages."""
    found = []
    for passage in passages.values():
        labelled = passage.filter(passage["label"].is_valid())
        found += [
            Judgment(_unit(row), row["label"], "labels of the dataset", 0)
            for row in labelled.to_pylist()
        ]
    return found


def _unit(row: Mapping[str, object]) -> PooledUnit:
    start, end = (int(str(row[name])) for name in ("start", "end"))
    return PooledUnit(str(row["query_id"]), str(row["document_id"]), start, end)
