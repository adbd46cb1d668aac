"""The pool of items that labels are sampled from: merged spans, and who found them where.

Passages of several chunkings that overlap are one item, as in :func:`..pooling.pool.merged`. Items
never change: when systems join later, a passage of theirs belongs to the item that it overlaps by
half (of the passage, or of the item), and what is left becomes items of its own. So a judgment
stays the judgment of what was read.

A metric that is a sum over items, weight * gain, is linear: its weights are known without a label,
and a sample of labels estimates it. With the ranks of a system at which an item stands:

- ``dcg@k``: 1 / log2(first rank + 1), gain = grade: only the first passage of an item earns;
- ``precision@k``: number of ranks / k, gain = 1 for a grade of at least ``rel``;
- ``pool_recall@k``: 1, and the sum is divided by the gains of all items of the pool: recall over
  all questions together ("micro"), of what the pool holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import NotEstimable
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.labels.pooling.pool import PLACE, PooledUnit, SamePassages, merged

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

POOL_RECALL = "pool_recall"
LINEAR = ("dcg", "precision", POOL_RECALL)
"""What a sample of items estimates."""


@dataclass(frozen=True)
class LabelPool:
    """The items, and the ranks at which the systems have them.

    Attributes:
        items: each a query and a span; those of earlier pools come first.
        systems: names of the retrievers.
        question_ids: all questions that count, also those for which nothing was retrieved.
        question: shape (items,): the number of each item's question; ``len(question_ids)`` for an
            item of a question that counts no more.
        system, item, rank: one entry for each passage in the first ranks of a system.
    """

    items: tuple[PooledUnit, ...]
    systems: tuple[str, ...]
    question_ids: tuple[str, ...]
    question: Integers
    system: Integers
    item: Integers
    rank: Integers

    @property
    def counted(self) -> Flags:
        """Which items are of a question that counts; the others weigh nothing."""
        return np.asarray(self.question < len(self.question_ids))

    def weights(self, metric: Metric) -> Floats:
        """Return what each item's gain counts for each system, shape (systems, items).

        The metric of one question is the sum over its items; its mean divides by all questions.
        """
        refuse_ratios(metric)
        weights = np.zeros((len(self.systems), len(self.items)))
        inside = self.rank <= int(metric.cutoff or 0)
        places = self.system[inside], self.item[inside]
        if metric.measure == "precision":
            np.add.at(weights, places, 1.0 / int(metric.cutoff or 1))
        elif metric.measure == POOL_RECALL:
            weights[places] = 1.0
        else:
            np.maximum.at(weights, places, 1.0 / np.log2(self.rank[inside] + 1.0))
        return weights


def sampled_metrics(primary: Metric, depth: int) -> tuple[Metric, ...]:
    """Return what a sample estimates of an experiment; the first is what it is to decide."""
    usual = tuple(Metric(measure, depth) for measure in LINEAR)
    is_decidable = primary.measure in LINEAR and primary.measure != POOL_RECALL
    if not is_decidable or not 0 < (primary.cutoff or 0) <= depth:
        return usual
    return (primary, *(metric for metric in usual if metric.measure != primary.measure))


def estimable_metric(name: str) -> Metric:
    """Return the metric of a name, one that a sample of labels estimates."""
    measure, _, cutoff = name.strip().partition("@")
    is_pool_recall = measure == POOL_RECALL and cutoff.isdecimal() and int(cutoff) > 0
    metric = Metric(POOL_RECALL, int(cutoff)) if is_pool_recall else parse_metric(name)
    refuse_ratios(metric)
    return metric


def refuse_ratios(metric: Metric) -> None:
    """Refuse a metric that a sample of items does not estimate.

    Raises:
        NotEstimable: it is a ratio or depends on all labels of a question, as nDCG, recall, MRR and
            MAP do, or has no cut-off.
    """
    if metric.measure not in LINEAR:
        raise NotEstimable(
            f"{metric} is not estimated from a sample of labels: it is not a sum over judged "
            "items, and filling in labels is biased; judge whole questions for it, or take dcg@k, "
            f"precision@k or {POOL_RECALL}@k"
        )
    if metric.cutoff is None:
        raise NotEstimable(f"{metric} needs a cut-off to be estimated, as {metric}@10")


def gains(metric: Metric, grades: Floats) -> Floats:
    """Return what grades earn; NaN, which is no grade, stays NaN."""
    if metric.measure == "dcg":
        return np.maximum(grades, 0.0)
    relevant = (grades >= dict(metric.params).get("rel", 1)).astype(np.float64)
    return np.where(np.isnan(grades), np.nan, relevant)


def label_pool(
    passages: Mapping[str, pa.Table],
    question_ids: Sequence[str],
    depth: int,
    earlier: Sequence[PooledUnit] = (),
) -> LabelPool:
    """Return the pool of the first ``depth`` ranks of all systems.

    The passages are tables with the columns of :data:`rag_assets.schemas.SAMPLED_PASSAGES`; those
    of other questions are left out. ``earlier`` are the items of the pool so far, which stay first.
    """
    number_of = {query_id: number for number, query_id in enumerate(question_ids)}
    rows = [
        (number, PooledUnit(*place), rank)
        for number, table in enumerate(passages.values())
        for rank, *place in zip(*(table[c].to_pylist() for c in ("rank", *PLACE)), strict=True)
        if rank <= depth and place[0] in number_of
    ]
    spans = {passage for _, passage, _ in rows}
    item_of = _matches(spans, earlier)
    rest = spans - item_of.keys()
    new = sorted(merged(rest))
    item_of |= {span: len(earlier) + number for span, number in _matches(rest, new).items()}
    items = (*earlier, *new)
    return LabelPool(
        items,
        tuple(passages),
        tuple(question_ids),
        np.array([number_of.get(item.query_id, len(question_ids)) for item in items], np.int64),
        np.array([system for system, _, _ in rows], np.int64),
        np.array([item_of[passage] for _, passage, _ in rows], np.int64),
        np.array([rank for _, _, rank in rows], np.int64),
    )


def _matches(spans: set[PooledUnit], items: Sequence[PooledUnit]) -> dict[PooledUnit, int]:
    """Return for spans the item that is the same passage: of several the one that overlaps most."""
    same = SamePassages(items)

    def overlap(span: PooledUnit, number: int) -> int:
        return min(span.end, items[number].end) - max(span.start, items[number].start)

    near = {span: same.numbers(span) for span in spans}
    return {
        span: max(numbers, key=lambda number: (overlap(span, number), -number))
        for span, numbers in near.items()
        if numbers
    }
