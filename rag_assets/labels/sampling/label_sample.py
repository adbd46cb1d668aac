"""A pool with the labels that were given so far: what estimates are computed from.

Each item is in one state:

- *certain*: labelled before, whatever its random number: probability 1;
- *judged*: asked, and answered with a grade;
- *missing*: asked, and skipped, waiting, or answered with "cannot tell";
- not asked yet.

Missing labels are taken to be missing at random: the probability of a judged item is that of being
asked times the share of the asked items that were judged, of questions that count. For "cannot
tell" there are bounds as well: with all of them at the lowest gain, and at the highest.

A pool of which every drawn passage was graded is no sample any more: its grades are complete
labels. Nobody has to be asked about a passage a second time: what people said of drawn passages
counts for every sheet.

An evaluation keeps a sample as a table. The probability of each item and its state tell everything
that an estimate reads, so log and design need not be there when two evaluations are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.labels.label_import import by_key, key_of, without_covered
from rag_assets.labels.logs import (
    CANNOT_TELL,
    JUDGED,
    SKIPPED,
    LoggedJudgment,
    design_file,
    left_out,
    marks_file,
    read_judgments,
    read_marks,
)
from rag_assets.labels.pool import (
    PLACE,
    Flags,
    Floats,
    Integers,
    Judgment,
    LabelPool,
    PooledUnit,
    SamePassages,
    label_pool,
    texts_of,
    units_in,
)
from rag_assets.labels.sampling.design import Design, read_design
from rag_assets.schemas import QRELS, SAMPLED_LABELS
from rag_assets.sources.fields import note
from rag_assets.store.canonical import canonical_json

CERTAIN, OPEN = "certain", "open"

_NO_CHANCE = 1e-12
_MAX_HAZARD = 700.0
"""It leaves no double to be asked with another probability than 1."""


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
        verdicts: source, a judge or voters -> for each item any number that may tell of the grade;
            NaN: missing. They are no labels.
    """

    pool: LabelPool
    design: Design
    grades: Floats
    certain: Flags
    cannot_tell: Flags
    touched: Flags
    verdicts: Mapping[str, Floats] = field(default_factory=dict)

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
        response = self.judged.sum() / max(int((self.asked & self.pool.counted).sum()), 1)
        return np.where(self.certain, 1.0, self.design.probabilities(self.clock) * response)

    @property
    def done(self) -> Flags:
        """Which items need no asking: judged, "cannot tell", or labelled before."""
        return np.asarray(self.certain | ~np.isnan(self.grades) | self.cannot_tell)

    def next_items(self) -> Integers:
        """Return the numbers of the items to ask, in order; skipped ones return at the end."""
        order = self.design.order()
        waiting = order[~self.done[order]]
        skipped = self.touched[waiting]
        return np.concatenate([waiting[~skipped], waiting[skipped]])


def label_sample(
    pool: LabelPool,
    design: Design,
    judgments: Iterable[LoggedJudgment],
    earlier: Iterable[Judgment] = (),
) -> LabelSample:
    """Return a pool with its labels.

    Args:
        pool: the items.
        design: of the same items.
        judgments: the lines of the log; of one item the last one counts. A line without a
            probability below 1 was not drawn: it is certain.
        earlier: labels of the dataset, all certain. One of a span counts for each item that is the
            same passage; of several the highest grade counts.
    """
    if design.items != pool.items:
        raise ValueError("pool and design must have the same items")
    grades = np.full(len(pool.items), np.nan)
    certain, cannot_tell, touched = (np.zeros(len(pool.items), np.bool_) for _ in range(3))
    number_of = {item: number for number, item in enumerate(pool.items)}
    same = SamePassages(pool.items)
    lines = list(judgments)
    for item, line in {line.item: line for line in lines if not line.is_hint}.items():
        number = number_of.get(item) if line.was_drawn else None
        numbers = same.numbers(item) if number is None else [number]
        if line.grade is not None:
            grades[numbers] = np.fmax(grades[numbers], float(line.grade))
            certain[numbers] |= number is None
        if number is not None:
            touched[number] = True
            cannot_tell[number] = line.status == CANNOT_TELL
    for label in earlier:
        for number in same.numbers(label.unit):
            is_first = not certain[number]
            grades[number] = label.grade if is_first else max(grades[number], label.grade)
            certain[number] = True
    verdicts = _verdicts(lines, same, len(pool.items))
    return LabelSample(pool, design, grades, certain, cannot_tell & ~certain, touched, verdicts)


class SampledPool(NamedTuple):
    """What is asked, in which order, and what is known beside the answers.

    Attributes:
        pool: the items.
        design: of the same items.
        log: the file that answers are written to; marks of questions lie beside it.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        earlier: labels of the dataset.
        clusters: one name a question; None: each is its own.
    """

    pool: LabelPool
    design: Design
    log: Path
    documents: pa.Table
    earlier: tuple[Judgment, ...] = ()
    clusters: Sequence[str] | None = None

    def lines(self) -> list[LoggedJudgment]:
        """Return what the log holds on texts that are there; nothing before the first judgment."""
        return valid_judgments(self.log, self.documents)[0]

    def sample(self, lines: Iterable[LoggedJudgment]) -> LabelSample:
        """Return the pool with the labels of some lines."""
        return label_sample(self.pool, self.design, lines, self.earlier)


def _verdicts(
    lines: Iterable[LoggedJudgment], same: SamePassages, n_items: int
) -> dict[str, Floats]:
    """Return source -> its grade of each item; of several passages in one the highest."""
    last = {(line.source, line.item): line.grade for line in lines if line.is_hint}
    verdicts: dict[str, Floats] = {}
    for (source, item), grade in sorted(last.items(), key=lambda pair: pair[0]):
        if grade is not None:
            row = verdicts.setdefault(source, np.full(n_items, np.nan))
            numbers = same.numbers(item)
            row[numbers] = np.fmax(row[numbers], float(grade))
    return verdicts


def earlier_labels(passages: Mapping[str, pa.Table]) -> list[Judgment]:
    """Return the labels of the dataset of some systems' passages."""
    labelled = [table.filter(table["label"].is_valid()) for table in passages.values()]
    return [
        Judgment(unit, grade, "labels of the dataset", 0)
        for table in labelled
        for unit, grade in zip(units_in(table), table["label"].to_pylist(), strict=True)
    ]


def sample_table(sample: LabelSample) -> pa.Table:
    """Return the items of a sample, table of :data:`rag_assets.schemas.SAMPLED_LABELS`."""
    asked, clock = sample.asked, sample.clock
    judged = asked & ~np.isnan(sample.grades)  # also of questions that do not count now
    hazards = sample.design.hazards(clock) if np.isfinite(clock) else np.full(len(asked), np.inf)
    states = np.select(
        [sample.certain, judged, asked & sample.cannot_tell, asked],
        [CERTAIN, JUDGED, CANNOT_TELL, SKIPPED],
        OPEN,
    )
    columns = (column.tolist() for column in (states, sample.grades, hazards))
    rows: list[dict[str, object]] = []
    for number, (item, *cells) in enumerate(zip(sample.pool.items, *columns, strict=True)):
        state, grade, hazard = cells
        pairs = ((source, values[number]) for source, values in sample.verdicts.items())
        verdicts = {source: int(value) for source, value in pairs if value >= 0}
        row = {"state": state, "hazard": min(hazard, _MAX_HAZARD), **item._asdict()}
        row["grade"] = int(grade) if state in (CERTAIN, JUDGED) else None
        rows.append({**row, "verdicts": canonical_json(verdicts) if verdicts else None})
    return SAMPLED_LABELS.from_rows(rows)


def stored_sample(
    table: pa.Table, passages: Mapping[str, pa.Table], question_ids: Sequence[str], depth: int
) -> LabelSample:
    """Return the sample of a table ``schemas.SAMPLED_LABELS``, seen by some systems.

    What of their passages is in no item of the table had no chance to be asked.
    """
    rows, items = table.to_pylist(), units_in(table)
    pool = label_pool(passages, question_ids, depth, items)
    hazards, was_asked = np.zeros(len(pool.items)), np.zeros(len(pool.items), np.bool_)
    hazards[: len(items)] = [row["hazard"] for row in rows]
    was_asked[: len(items)] = [row["state"] not in (CERTAIN, OPEN) for row in rows]
    # A clock that stands at 1: what was asked came before, the rest comes then.
    numbers = np.where(hazards > 0, np.where(was_asked, hazards / 2, hazards), _NO_CHANCE)
    design = Design(pool.items, numbers, np.stack([hazards, np.ones_like(hazards)]), (1.0,))
    lines: list[LoggedJudgment] = []
    earlier = earlier_labels(passages)
    for row, item in zip(rows, items, strict=True):
        if row["state"] == CERTAIN:
            earlier.append(Judgment(item, row["grade"], CERTAIN, 0))
        elif row["state"] != OPEN:
            lines.append(LoggedJudgment(*item, row["grade"], row["state"], 0.5))
        # An evaluation of an earlier version has no such column.
        for source, grade in json.loads(row.get("verdicts") or "{}").items():
            lines.append(LoggedJudgment(*item, int(grade), source=source))
    return label_sample(pool, design, lines, earlier)


def is_wholly_graded(log: Path) -> bool:
    """Return whether people answered every passage of the design, of questions that count."""
    if not (log.is_file() and design_file(log).is_file()):
        return False
    answers = _answers(read_judgments(log))
    out = left_out(read_marks(marks_file(log)))
    items = {item for item in read_design(design_file(log)).items if item.query_id not in out}
    is_answered = items <= {line.item for line in answers}
    return bool(items) and is_answered and any(line.status == JUDGED for line in answers)


def _answers(lines: Iterable[LoggedJudgment]) -> list[LoggedJudgment]:
    """Return what people said last of each passage; one that was skipped is not answered."""
    last = {line.item: line for line in lines if not line.is_hint}
    return [line for line in last.values() if line.status != SKIPPED]


def valid_judgments(
    log: Path, documents: pa.Table
) -> tuple[list[LoggedJudgment], list[LoggedJudgment]]:
    """Return the lines on texts that are there, and grades of others that nobody gave again."""
    lines = read_judgments(log)
    ids = pa.array([line.document_id for line in lines], pa.string())
    texts = texts_of(documents.filter(pc.is_in(documents["document_id"], ids)))
    valid = [line for line in lines if line.is_of(texts.get(line.document_id))]
    answers = _answers(valid)
    same = SamePassages([line.item for line in answers])
    moved = {(line.query_id, line.digest) for line in answers if line.digest}
    lost = [x for x in _answers(lines) if x.grade is not None and not same.numbers(x.item)]
    return valid, [line for line in lost if (line.query_id, line.digest) not in moved]


def lost_notes(lost: Sequence[LoggedJudgment], log: Path) -> list[str]:
    """Return what is to be said of grades whose text changed; nothing without one."""
    names = [f"query {line.query_id} in {line.document_id}" for line in lost]
    why = "not used, because the text changed; `rag-assets label` asks again"
    return note(f"grade of {log.name} is {why}", f"grades of {log.name} are {why}", names)


def whole_readers(pool: LabelPool, lines: Iterable[LoggedJudgment]) -> list[str]:
    """Return systems with a passage that lacks what has the grade: estimates count items whole."""
    last = {line.item: line for line in lines if not line.is_hint}
    parts = {item: [x.unit for x in line.judgments() if x.grade] for item, line in last.items()}
    places = zip(pool.system.tolist(), pool.item.tolist(), pool.span, strict=True)
    graded = ((system, span, parts.get(pool.items[number])) for system, number, span in places)
    lacking = {n for n, span, units in graded if units and not any(map(span.shares_half, units))}
    return [pool.systems[number] for number in sorted(lacking)]


def with_graded_pool(qrels: pa.Table, log: Path, documents: pa.Table, judge: str) -> pa.Table:
    """Return labels and the grades of a log; what the labels say already is not said again.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        log: of people's judgments; those of a text that is no longer there are left out, and all of
            a question that loses its last relevant passage by that: it is not unanswerable.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        judge: the unit that the experiment judges; whole documents unless it is ``evidence``.
    """
    lines, lost = valid_judgments(log, documents)
    answers = _answers(lines)
    lost_all = {line.query_id for line in lost if line.grade}
    lost_all -= {line.query_id for line in answers if line.grade}
    answers = [line for line in answers if line.query_id not in lost_all]
    old = qrels.to_pylist()
    there = set(map(key_of, old))
    labels = by_key((label for line in answers for label in line.judgments()), judge != "evidence")
    new = [(key, label) for key, label in labels.items() if key not in there]
    rows: list[dict[str, object]] = []
    for key, label in without_covered(new, old):
        evidence_id = key[1] if key[2] is None else f"{key[1]}#{key[2]}-{key[3]}"
        place = dict(zip(PLACE, key, strict=True))
        rows.append({**place, "evidence_id": evidence_id, "grade": label.grade})
    return pa.concat_tables([qrels, QRELS.from_rows(rows)]).combine_chunks()


def not_answered(units: Iterable[PooledUnit], lines: Sequence[LoggedJudgment]) -> set[PooledUnit]:
    """Return the units that are no passage of which people said something."""
    same = SamePassages([line.item for line in _answers(lines)])
    return {unit for unit in units if not same.numbers(unit)}
