"""A pool with the labels that were given so far: what estimates are computed from.

Each item is in one state:

- *certain*: labelled before, whatever its random number: probability 1;
- *judged*: asked, and answered with a grade;
- *missing*: asked, and skipped, waiting, or answered with "cannot tell";
- not asked yet.

Missing labels are taken to be missing at random: the probability of a judged item is that of being
asked times the share of the asked items that were judged, of questions that count. For "cannot
tell" there are bounds as well: with all of them at the lowest gain, and at the highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rag_assets.labels.pooling.pool import Judgment, PooledUnit
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.judgment_log import CANNOT_TELL, JUDGED, SEARCH, LoggedJudgment
from rag_assets.labels.sampling.label_pool import (
    Flags,
    Floats,
    Integers,
    LabelPool,
    by_place,
    same_passage,
)


@dataclass(frozen=True)
class LabelSample:
    """The labels of a pool.

    Attributes:
        pool: the items and their ranks.
        design: of the same items, in the same order.
        grades: shape (items,); NaN where no grade was given.
        certain: labelled whatever the random number.
        cannot_tell: asked and answered without a grade.
        touched: judged, skipped or "cannot tell": the order was followed at least so far.
        verdicts: of judges and voters, shape (sources, items): any number that may tell of the
            grade; NaN: missing. They are no labels.
        sources: where each row of them is from.
    """

    pool: LabelPool
    design: Design
    grades: Floats
    certain: Flags
    cannot_tell: Flags
    touched: Flags
    verdicts: Floats | None = None
    sources: tuple[str, ...] = ()

    @property
    def clock(self) -> float:
        """Up to when items were asked."""
        return self.design.clock(self.touched & ~self.certain)

    @property
    def asked(self) -> Flags:
        """Which items were asked; the certain ones are not among them."""
        return np.asarray((self.design.arrivals() < self.clock) & ~self.certain)

    @property
    def judged(self) -> Flags:
        """Which of the asked items have a grade, of questions that count."""
        return np.asarray(self.asked & ~np.isnan(self.grades) & self.pool.counted)

    @property
    def is_estimable(self) -> bool:
        """Whether an item that was drawn is judged, or every item is certain."""
        return bool(self.judged.any() or self.certain[self.pool.counted].all())

    def probabilities(self) -> Floats:
        """Return with what probability each item was asked and judged; 1 for certain ones."""
        asked = self.asked & self.pool.counted
        response = self.judged.sum() / max(int(asked.sum()), 1)
        return np.where(self.certain, 1.0, self.design.probabilities(self.clock) * response)

    def done(self) -> Flags:
        """Return which items need no asking any more."""
        return np.asarray(self.certain | ~np.isnan(self.grades) | self.cannot_tell)

    def next_items(self, n: int = 1) -> Integers:
        """Return the items to ask next; skipped ones return at the end."""
        done = self.done()
        return self.design.next_items(done, n, skipped=self.touched & ~done)


def label_sample(
    pool: LabelPool,
    design: Design,
    judgments: Iterable[LoggedJudgment],
    earlier: Iterable[Judgment] = (),
) -> LabelSample:
    """Return a pool with its labels.

    Args:
        pool: the items and their ranks.
        design: of the same items.
        judgments: the lines of the log; of one item the last one counts. A line without a
            probability below 1 was not drawn: it is certain. What a person searched for counts
            for nothing here: it was found because other items were asked, and found where there was
            no label yet, so what is certain would depend on what was drawn.
        earlier: labels of the dataset, all certain. One of a span counts for each item that is the
            same passage; of several the highest grade counts.
    """
    if design.items != pool.items:
        raise ValueError("pool and design must have the same items")
    n = len(pool.items)
    grades = np.full(n, np.nan)
    certain, cannot_tell, touched = (np.zeros(n, np.bool_) for _ in range(3))
    number_of = {item: number for number, item in enumerate(pool.items)}
    places = by_place(pool.items)
    lines = [line for line in judgments if line.source != SEARCH]
    last = {line.item: line for line in lines if not line.is_hint}
    for item, judgment in last.items():
        number = number_of.get(item)
        if number is None or not judgment.was_drawn:
            for near in _near(item, pool, places) if judgment.status == JUDGED else ():
                grades[near] = np.fmax(grades[near], float(judgment.grade or 0))
                certain[near] = True
            continue
        touched[number] = True
        cannot_tell[number] = judgment.status == CANNOT_TELL
        if judgment.status == JUDGED:
            grades[number] = np.fmax(grades[number], float(judgment.grade or 0))
    for label in earlier:
        for near in _near(label.unit, pool, places):
            is_first = not certain[near]
            grades[near] = label.grade if is_first else max(grades[near], label.grade)
            certain[near] = True
    said = _hints(lines, pool, places)
    values = np.stack(list(said.values())) if said else None
    unsure = cannot_tell & ~certain
    return LabelSample(pool, design, grades, certain, unsure, touched, values, tuple(said))


def _hints(
    lines: Iterable[LoggedJudgment], pool: LabelPool, places: Mapping[tuple[str, str], list[int]]
) -> dict[str, Floats]:
    """Return source -> what it says of each item; of several passages in one the highest grade."""
    last = {(line.source, line.item): line.grade for line in lines if line.is_hint}
    said: dict[str, Floats] = {}
    for (source, item), grade in sorted(last.items(), key=lambda pair: pair[0]):
        if grade is None:
            continue
        row = said.setdefault(source, np.full(len(pool.items), np.nan))
        for near in _near(item, pool, places):
            row[near] = np.fmax(row[near], float(grade))
    return said


def _near(
    span: PooledUnit, pool: LabelPool, places: Mapping[tuple[str, str], list[int]]
) -> list[int]:
    return [n for n in places.get(span[:2], ()) if same_passage(span, pool.items[n])]
