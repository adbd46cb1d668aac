"""A pool of which every passage was graded: its grades are complete labels, and no sample any more.

Nobody has to be asked about a passage a second time, whatever asks: what people said of passages
that were drawn, or that they searched for, counts for every sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.labels.pooling.label_import import by_key, without_covered
from rag_assets.labels.pooling.pool import Judgment, PooledUnit
from rag_assets.labels.question_marks import left_out, marks_file, read_marks
from rag_assets.labels.sampling.design import read_design
from rag_assets.labels.sampling.judgment_log import (
    JUDGED,
    SEARCH,
    SKIPPED,
    LoggedJudgment,
    design_file,
    read_judgments,
)
from rag_assets.labels.sampling.label_pool import by_place, same_passage
from rag_assets.schemas import QRELS


def is_wholly_graded(log: Path) -> bool:
    """Return whether people answered every passage of the design, of questions that count.

    Raises:
        DataError: a file breaks its format.
    """
    design = design_file(log)
    if not (log.is_file() and design.is_file()):
        return False
    answers = [line for line in _answers(read_judgments(log)) if line.source != SEARCH]
    answered = {line.item for line in answers}
    out = set(left_out(read_marks(marks_file(log))))
    asked = {item for item in read_design(design).items if item.query_id not in out}
    return bool(asked) and asked <= answered and any(one.status == JUDGED for one in answers)


def _answers(lines: Iterable[LoggedJudgment]) -> list[LoggedJudgment]:
    """Return what people said last of each passage; one that was skipped is not answered."""
    last = {(line.item, line.source == SEARCH): line for line in lines if not line.is_hint}
    return [line for line in last.values() if line.status != SKIPPED]


def with_graded_pool(qrels: pa.Table, log: Path, documents: pa.Table, judge: str) -> pa.Table:
    """Return labels and the grades of a log; what the labels say already is not said again.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        log: of people's judgments; those of a text that is no longer there are left out.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        judge: the unit that the experiment judges; whole documents unless it is ``evidence``.
    """
    names, lengths = documents["document_id"], pc.utf8_length(documents["text"])
    ends = dict(zip(names.to_pylist(), lengths.to_pylist(), strict=True))
    answers = [x for x in _answers(read_judgments(log)) if x.item.end <= ends.get(x.item[1], -1)]
    judgments = [one for line in answers for one in _labels(line)]
    old = qrels.to_pylist()
    there = {(row["query_id"], row["document_id"], row["start"], row["end"]) for row in old}
    named = by_key(judgments, judge != "evidence").items()
    new = [(key, one) for key, one in named if key not in there]
    rows = [_row(*key, one.grade) for key, one in without_covered(new, old)]
    return pa.concat_tables([qrels, QRELS.from_rows(rows)]).combine_chunks()


def _labels(line: LoggedJudgment) -> Iterator[Judgment]:
    """Yield the judgments of an answer; beside evidence the whole passage counts as seen."""
    if line.status != JUDGED:
        return
    for start, end in line.evidence:
        yield Judgment(line.item._replace(start=start, end=end), line.grade or 0, line.source, 0)
    rest = 0 if line.evidence else line.grade or 0
    yield Judgment(line.item, rest, line.source, 0)


def _row(
    query_id: str, document_id: str, start: int | None, end: int | None, grade: int
) -> dict[str, object]:
    evidence = document_id if start is None else f"{document_id}#{start}-{end}"
    place = {"document_id": document_id, "start": start, "end": end}
    return {"query_id": query_id, "evidence_id": evidence, **place, "grade": grade}


def not_answered(units: Iterable[PooledUnit], lines: Sequence[LoggedJudgment]) -> set[PooledUnit]:
    """Return the units that are no passage of which people said something."""
    items = [line.item for line in _answers(lines)]
    places = by_place(items)
    return {
        unit
        for unit in units
        if not any(same_passage(unit, items[n]) for n in places.get(unit[:2], ()))
    }
