"""The sheet of a sample: its next items as rows that people fill in.

Rows stand in the order of the sample, which is not that of questions. ``item`` is a hash that tells
nothing but which item it is; ``probability`` is that of being asked when all rows are answered. In
``grade`` people write 0 to 3, ``?`` for "cannot tell" or ``skip``; an empty cell is not answered.

Rows that are left empty above an answered one count as asked and missing, and are asked first in
the next sheet. What goes into the log is the probability by the last row that was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from rag_assets.errors import DataError
from rag_assets.labels.logs import (
    CANNOT_TELL,
    HIGHEST_GRADE,
    JUDGED,
    PERSON,
    SEARCH,
    SKIPPED,
    LoggedJudgment,
    Status,
    drawn_items,
)
from rag_assets.labels.pool import PooledUnit
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.labels.sheets import (
    GRADE,
    SHEET,
    Cells,
    CsvSheet,
    SheetCheck,
    refuse,
    sheet_rows,
)
from rag_assets.sources.fields import Place, shown
from rag_assets.sources.row_files import read_csv
from rag_assets.store.canonical import permanent_hash

ITEM, PROBABILITY, SOURCE = "item", "probability", "source"
SAMPLE_SHEET = CsvSheet(
    (ITEM, PROBABILITY, *SHEET.columns), SHEET.answer, SHEET.optional | {PROBABILITY}
)

_ANSWERS: dict[str, tuple[int | None, Status]] = {
    **{str(grade): (grade, JUDGED) for grade in range(HIGHEST_GRADE + 1)},
    "?": (None, CANNOT_TELL),
    "skip": (None, SKIPPED),
}


def next_units(sample: LabelSample, n: int, lengths: dict[str, int]) -> list[PooledUnit]:
    """Return the next ``n`` items whose text is still there; ``lengths`` are the documents'."""
    items = (sample.pool.items[number] for number in sample.next_items())
    return [item for item in items if item.end <= lengths.get(item.document_id, -1)][:n]


def sample_sheet_text(
    units: Sequence[PooledUnit], sample: LabelSample, documents: pa.Table, queries: pa.Table
) -> str:
    """Return the sheet of some items, in the order in which they are asked, as CSV."""
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
    return f"i{permanent_hash('item', seed, *item).hex()[:12]}"


def is_sample_sheet(file: Path) -> bool:
    """Return whether a sheet is of a sample, so that it is never taken for complete labels."""
    _, cells = next(iter(read_csv(file)), (0, {}))
    return not cells.keys().isdisjoint({ITEM, PROBABILITY})


def read_sample_sheet(
    file: Path, design: Design, documents: pa.Table, queries: pa.Table
) -> tuple[list[tuple[LoggedJudgment, Place]], int]:
    """Return the rows that were filled in with their places, and how many were not.

    Raises:
        DataError: a column is missing, or a row has another grade, is of no item of the sample or
            of a text that is no longer there, or answers an item a second time in another way; the
            first problem is told, the others are counted.
    """
    check = SheetCheck(documents, queries)
    items = set(design.items)

    def read(cells: Cells, place: Place) -> LoggedJudgment:
        if cells.get(SOURCE, "").strip() not in ("", PERSON):
            problem = f"is {shown(cells[SOURCE])}; verdicts and votes are lines of the log"
            raise place.error(problem, SOURCE)
        cell = cells[GRADE].strip().lower()
        if cell not in _ANSWERS:
            allowed = f"0 to {HIGHEST_GRADE}, ? for cannot tell, or skip"
            raise place.error(f"is {shown(cells[GRADE])}; allowed: {allowed}", GRADE)
        grade, status = _ANSWERS[cell]
        item = check.unit(cells, place)
        evidence = check.evidence(cells, item, grade, place)
        if item not in items or cells[ITEM] != item_id(item, design.seed):
            problem = f"{shown(cells[ITEM])} is not this passage in the sample of this experiment"
            hint = "was the sheet edited, or is it of another sample?"
            raise place.error(f"{problem}; {hint}", ITEM)
        return LoggedJudgment(*item, grade, status, evidence=evidence)

    return SAMPLE_SHEET.filled(file, read, lambda row: (row.item, row))


def new_judgments(
    answers: Sequence[tuple[LoggedJudgment, Place]],
    lines: Sequence[LoggedJudgment],
    design: Design,
    *,
    by: str | None,
    at: str,
) -> list[LoggedJudgment]:
    """Return what the log does not hold yet of a sheet, filled in by ``by`` and read ``at``.

    Raises:
        DataError: the log says something else of an item; the first such row is told.
    """
    drawn = {line.item: line for line in lines if line.source != SEARCH and not line.is_hint}
    problems: list[DataError] = []
    new = []
    for answer, place in answers:
        line = drawn.get(answer.item)
        if line is None or (line.status == SKIPPED and answer.status != SKIPPED):
            new.append(answer)
        elif SKIPPED in (line.status, answer.status):
            continue  # one that was skipped again, or answered meanwhile, says nothing new
        elif (line.grade, line.status) != (answer.grade, answer.status):
            given, logged = (
                "cannot tell" if grade is None else str(grade)
                for grade in (answer.grade, line.grade)
            )
            who = f" by {shown(line.by)}" if line.by else ""
            problem = f"is {given}, but the log has {logged}{who} for this passage"
            hint = "empty the cell, or undo that on the page"
            problems.append(place.error(f"{problem}; {hint}", GRADE))
        elif answer.evidence and answer.evidence != line.evidence:
            new.append(answer)
    refuse(problems)
    labelled = drawn_items(lines) | {answer.item for answer in new}
    touched = np.array([item in labelled for item in design.items], np.bool_)
    p = dict(zip(design.items, design.drawn_probabilities(touched).tolist(), strict=True))
    return [replace(answer, probability=p[answer.item], by=by, at=at) for answer in new]
