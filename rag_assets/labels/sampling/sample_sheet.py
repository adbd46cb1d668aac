"""The sheet of a sample: its next items as rows that people fill in.

Rows stand in the order of the sample, which is not that of questions. ``item`` is a hash that tells
nothing but which item it is; ``probability`` is that of being asked when all rows are answered. In
``grade`` people write 0 to 3, ``?`` for "cannot tell" or ``skip``; an empty cell is not answered.
A column ``source`` may be added: ``judge:<name>`` or ``vote:<system>`` makes a row a verdict or a
vote, which is no label; empty or ``person`` is a label.

Rows that are left empty above an answered one count as asked and missing, and are asked first in
the next sheet. What goes into the log is the probability by the last row that was answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.pooling.sheet import EVIDENCE, SHEET, SheetCheck, refuse, sheet_rows
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.judgment_log import (
    CANNOT_TELL,
    HIGHEST_GRADE,
    HINTS,
    JUDGED,
    PERSON,
    SEARCH,
    SKIPPED,
    LoggedJudgment,
    Range,
    checked_source,
)
from rag_assets.labels.sampling.label_pool import Flags
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.sources.fields import Place, shown
from rag_assets.sources.row_files import read_csv
from rag_assets.sources.sheets import Sheet

ITEM, PROBABILITY, SOURCE = "item", "probability", "source"
SAMPLE_SHEET = Sheet((ITEM, PROBABILITY, *SHEET.columns), SHEET.optional | {PROBABILITY})

_STATUSES = {"?": CANNOT_TELL, "skip": SKIPPED}
_GRADES = {str(grade): grade for grade in range(HIGHEST_GRADE + 1)}


class SheetAnswer(NamedTuple):
    """A row that was filled in, and the line on which it begins."""

    item: PooledUnit
    status: str
    grade: int | None
    evidence: tuple[Range, ...]
    source: str
    line: int


def next_units(sample: LabelSample, n: int, lengths: dict[str, int]) -> list[PooledUnit]:
    """Return the next items whose text is still there.

    Args:
        sample: the pool and its labels.
        n: how many.
        lengths: document -> its characters.
    """
    items = (sample.pool.items[number] for number in sample.next_items(len(sample.pool.items)))
    return [item for item in items if item.end <= lengths.get(item.document_id, -1)][:n]


def sample_sheet_text(
    units: Sequence[PooledUnit], sample: LabelSample, documents: pa.Table, queries: pa.Table
) -> str:
    """Return the sheet as CSV.

    Args:
        units: items of the sample, in the order in which they are asked.
        sample: the pool and its labels.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
    """
    design = sample.design
    number_of = {item: number for number, item in enumerate(design.items)}
    answered = sample.touched & ~sample.certain
    answered[[number_of[unit] for unit in units]] = True
    p = design.drawn_probabilities(answered)
    leads = ((item_id(unit, design.seed), f"{p[number_of[unit]]:.4g}") for unit in units)
    rows = zip(leads, sheet_rows(units, documents, queries), strict=True)
    return SAMPLE_SHEET.text((*lead, *row) for lead, row in rows)


def item_id(item: PooledUnit, seed: int) -> str:
    """Return the id of an item in the sample of a seed; it begins no formula."""
    digest = hashlib.sha256("\0".join(["item", str(seed), *map(str, item)]).encode())
    return f"i{digest.hexdigest()[:12]}"


def is_sample_sheet(file: Path) -> bool:
    """Return whether a sheet is of a sample, so that it is never taken for complete labels.

    Raises:
        DataError: it cannot be read.
    """
    row = next(iter(read_csv(file)), None)
    return row is not None and not row[1].keys().isdisjoint({ITEM, PROBABILITY})


def read_sample_sheet(
    file: Path, design: Design, documents: pa.Table, queries: pa.Table
) -> tuple[list[SheetAnswer], int]:
    """Return the rows that were filled in, and how many were not.

    Raises:
        DataError: a column is missing, or a row has another grade, is of no item of the sample or
            of a text that is no longer there, or answers an item a second time in another way; the
            first problem is told, the others are counted.
    """
    check = SheetCheck(documents, queries)
    items = set(design.items)
    answers: dict[tuple[PooledUnit, str], SheetAnswer] = {}
    problems: list[DataError] = []
    n_empty = 0
    for place, row in SAMPLE_SHEET.rows(file):
        if not row["grade"].strip() and not row.get(EVIDENCE, "").strip():
            n_empty += 1
            continue
        try:
            answer = _answer(row, place, check)
            if answer.item not in items or row[ITEM] != item_id(answer.item, design.seed):
                problem = f"{shown(row[ITEM])} is not this passage in the sample of this experiment"
                said = f"{problem}; was the sheet edited, or is it of another sample?"
                raise place.error(said, ITEM)
            first = answers.setdefault((answer.item, answer.source), answer)
            if first[:-1] != answer[:-1]:
                raise place.error(f"line {first.line} has another grade for this item", "grade")
        except DataError as error:
            problems.append(error)
    refuse(problems)
    return list(answers.values()), n_empty


def _answer(row: dict[str, str], place: Place, check: SheetCheck) -> SheetAnswer:
    cell = row["grade"].strip().lower()
    grade = _GRADES.get(cell)
    status = JUDGED if grade is not None else _STATUSES.get(cell)
    if status is None:
        allowed = f"0 to {HIGHEST_GRADE}, ? for cannot tell, or skip"
        raise place.error(f"is {shown(row['grade'])}; allowed: {allowed}", "grade")
    item = check.unit(row, place)
    part = check.evidence(row, item, grade, place)
    evidence = () if part is None else ((part.start, part.end),)
    return SheetAnswer(item, status, grade, evidence, _source(row, place), place.line or 0)


def _source(row: dict[str, str], place: Place) -> str:
    source = row.get(SOURCE, "").strip() or PERSON
    if source != PERSON and not source.startswith(HINTS):
        allowed = f"{PERSON}, judge:<name>, vote:<system>, or nothing"
        raise place.error(f"is {shown(source)}; allowed: {allowed}", SOURCE)
    return checked_source(source, place)


def new_judgments(
    answers: Sequence[SheetAnswer],
    lines: Iterable[LoggedJudgment],
    design: Design,
    *,
    file: Path,
    by: str | None,
    at: str,
) -> list[LoggedJudgment]:
    """Return what the log does not hold yet.

    Args:
        answers: of a sheet.
        lines: of the log.
        design: of the sample.
        file: the sheet, for the errors.
        by: who filled it in.
        at: when it is read, ISO 8601.

    Raises:
        DataError: the log says something else of an item; the first such row is told.
    """
    lines = list(lines)
    drawn = [line for line in lines if line.source != SEARCH and not line.is_hint]
    last = {line.item: line for line in drawn}
    said = {(line.item, line.source): line[1:3] for line in lines if line.is_hint}
    problems: list[DataError] = []
    new = []
    for answer in answers:
        if answer.source != PERSON:
            if said.get((answer.item, answer.source)) != (answer.grade, answer.status):
                new.append(answer)
            continue
        known = last.get(answer.item)
        if known is None or (known.status == SKIPPED and answer.status != SKIPPED):
            new.append(answer)
        elif answer.status == SKIPPED:
            continue  # it was skipped, or is answered now
        elif known[1:3] != (answer.grade, answer.status):
            problems.append(_conflict(answer, known, Place(file, answer.line)))
        elif answer.evidence and answer.evidence != known.evidence:
            new.append(answer)
    refuse(problems)
    labels = [answer for answer in new if answer.source == PERSON]
    touched = _touched(design, {line.item for line in drawn if line.was_drawn}, labels)
    p = dict(zip(design.items, design.drawn_probabilities(touched).tolist(), strict=True))
    return [
        LoggedJudgment(
            *(one.item, one.grade, one.status),
            *(p[one.item] if one.source == PERSON else None, by, at),
            source=one.source,
            evidence=one.evidence,
        )
        for one in new
    ]


def _conflict(answer: SheetAnswer, known: LoggedJudgment, place: Place) -> DataError:
    says = str(known.grade) if known.status == JUDGED else "cannot tell"
    who = f" by {shown(known.by)}" if known.by else ""
    given = str(answer.grade) if answer.status == JUDGED else "cannot tell"
    problem = (
        f"is {given}, but the log has {says}{who} for this passage; empty the cell, or undo that "
        "on the page"
    )
    return place.error(problem, "grade")


def _touched(design: Design, drawn: set[PooledUnit], new: Iterable[SheetAnswer]) -> Flags:
    answered = drawn | {answer.item for answer in new}
    return np.array([item in answered for item in design.items], np.bool_)
