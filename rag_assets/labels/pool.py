"""The pool: every passage that some retriever found near the top, once, and who found it where.

Depth-k pooling as in TREC (Voorhees and Harman, "TREC: Experiment and Evaluation in Information
Retrieval", MIT Press 2005, chapter 2): the union of the first k ranks of all runs.

Labels are sampled from :class:`LabelPool`: passages of several chunkings that overlap are one item,
as in :func:`merged`. Items never change: when systems join later, a passage of theirs belongs to
the item that it overlaps by half (of the passage, or of the item), and what is left becomes items
of its own. So a judgment stays the judgment of what was read.

A metric that is a sum over items, weight * gain, is linear: its weights are known without a label,
and a sample of labels estimates it. With the ranks of a system at which an item stands:

- ``dcg@k``: 1 / log2(first rank + 1), gain = grade: only the first passage of an item earns;
- ``precision@k``: number of ranks / k, gain = 1 for a grade of at least ``rel``;
- ``pool_recall@k``: 1, and the sum is divided by the gains of all items of the pool: recall over
  all questions together ("micro"), of what the pool holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.chunking.chunker import trimmed
from rag_assets.errors import NotEstimable
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.schemas import column_values
from rag_assets.store.canonical import permanent_hash

Spans = Mapping[str, tuple[str, int, int]]
"""Unit id -> its document and its span in the text of that document."""

MAX_UNION_CHARACTERS = 32_000
"""Characters of several overlapping units that are judged together; a cell takes them."""

Key = tuple[str, str, int | None, int | None]
"""A query, a document and a span of it; without a span the whole document."""


class PooledUnit(NamedTuple):
    """A unit to be judged for a query: the span ``[start, end)`` of a document's text."""

    query_id: str
    document_id: str
    start: int
    end: int

    @property
    def length(self) -> int:
        """Characters of the span."""
        return self.end - self.start

    def shares_half(self, other: PooledUnit) -> bool:
        """Return whether two spans of one document share half of the shorter one."""
        shared = min(self.end, other.end) - max(self.start, other.start)
        return shared > 0 and 2 * shared >= min(self.length, other.length)


PLACE = PooledUnit._fields
"""Columns of a table in which a unit stands."""


class Judgment(NamedTuple):
    """A judged unit, its grade, who judged it, and where that was read."""

    unit: PooledUnit
    grade: int
    source: str
    line: int


class SamePassages:
    """Finds the items that are the same passage as a span: one holds half of the other."""

    def __init__(self, items: Sequence[PooledUnit]) -> None:
        """Index items by question and document."""
        self._items = items
        self._places: dict[tuple[str, str], list[int]] = {}
        for number, item in enumerate(items):
            self._places.setdefault(item[:2], []).append(number)

    def numbers(self, span: PooledUnit) -> list[int]:
        """Return the numbers of the items that are the same passage."""
        items = ((number, self._items[number]) for number in self._places.get(span[:2], ()))
        return [number for number, item in items if span == item or span.shares_half(item)]


def units_in(table: pa.Table) -> list[PooledUnit]:
    """Return the unit of each row of a table with the columns :data:`PLACE`."""
    return [PooledUnit(*place) for place in column_values(table, *PLACE)]


def texts_of(documents: pa.Table) -> dict[str, str]:
    """Return document -> its text; ``documents`` is a table of ``schemas.DOCUMENTS``."""
    return dict(column_values(documents, "document_id", "text"))


def without_outer_blanks(pooled: Iterable[PooledUnit], documents: pa.Table) -> set[PooledUnit]:
    """Return units without the white space at their ends, which nobody judges.

    So a quote is what people read, and two chunkings that differ in blanks give one unit. A unit
    that is blank stays as it is.
    """
    texts = texts_of(documents)
    units = set()
    for unit in pooled:
        start, end = trimmed(texts[unit.document_id], unit.start, unit.end)
        units.add(unit._replace(start=start, end=end) if end > start else unit)
    return units


def merged(pooled: Iterable[PooledUnit]) -> set[PooledUnit]:
    """Return one unit for those of a query and a document that overlap: their union.

    Several chunkings find the same passage, and nobody should read it once for each. A union that
    would be longer than :data:`MAX_UNION_CHARACTERS` is not made, so that a chain of overlapping
    windows does not become the whole document; what lies inside another unit is always part of it.
    """
    units: list[PooledUnit] = []
    for unit in sorted(pooled, key=lambda unit: (*unit[:3], -unit.end)):
        if units and _belongs_to(unit, units[-1]):
            units[-1] = units[-1]._replace(end=max(units[-1].end, unit.end))
        else:
            units.append(unit)
    return set(units)


def _belongs_to(unit: PooledUnit, last: PooledUnit) -> bool:
    """Return whether a unit that begins in ``last``, or after it, is to be judged with it."""
    if unit[:2] != last[:2] or unit.start >= last.end:
        return unit == last
    return unit.end <= max(last.end, last.start + MAX_UNION_CHARACTERS)


def in_blind_order(
    pooled: Iterable[PooledUnit], query_ids: Iterable[str], seed: int = 0
) -> list[PooledUnit]:
    """Return units query by query, within one in an order by hashes that tells nothing of ranks."""
    place = {query_id: number for number, query_id in enumerate(query_ids)}

    def key(unit: PooledUnit) -> tuple[int, bytes]:
        return place[unit.query_id], permanent_hash(seed, *unit)

    return sorted(pooled, key=key)


def spans_of(units: pa.Table) -> Spans:
    """Return the spans of a table with ``unit_id``, ``document_id``, ``start`` and ``end``."""
    rows = column_values(units, "unit_id", "document_id", "start", "end")
    return {unit_id: (document_id, start, end) for unit_id, document_id, start, end in rows}


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
        system, item, rank, span: one entry for each passage in the first ranks of a system.
    """

    items: tuple[PooledUnit, ...]
    systems: tuple[str, ...]
    question_ids: tuple[str, ...]
    question: Integers
    system: Integers
    item: Integers
    rank: Integers
    span: tuple[PooledUnit, ...]

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
        why = "it is not a sum over judged items, and filling in labels is biased"
        how = f"judge whole questions for it, or take dcg@k, precision@k or {POOL_RECALL}@k"
        raise NotEstimable(f"{metric} is not estimated from a sample of labels: {why}; {how}")
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
        for rank, *place in column_values(table, "rank", *PLACE)
        if rank <= depth and place[0] in number_of
    ]
    spans = {passage for _, passage, _ in rows}
    item_of = _matches(spans, earlier)
    rest = spans - item_of.keys()
    new = sorted(merged(rest))
    item_of |= {span: len(earlier) + number for span, number in _matches(rest, new).items()}
    items = (*earlier, *new)
    question = [number_of.get(item.query_id, len(question_ids)) for item in items]
    places = [(system, item_of[passage], rank) for system, passage, rank in rows]
    system, item, rank = np.array(places, np.int64).reshape(-1, 3).T
    names = tuple(passages), tuple(question_ids)
    span = tuple(passage for _, passage, _ in rows)
    return LabelPool(items, *names, np.array(question, np.int64), system, item, rank, span)


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
