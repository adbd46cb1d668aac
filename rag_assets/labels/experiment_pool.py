"""The pool and the sample of labels of an experiment, and the sheets that ask about passages.

Both are taken from stored runs; nothing is computed. A sheet asks about all of a pool, or the next
ones of a sample.

A row asks about one passage. Where only a part of it answers the query, people copy that part into
``evidence``: it becomes the relevant span, and the rest of the passage is judged not relevant.

Rows of a sample stand in its order, which is not that of questions. ``probability`` is that of
being asked when all rows are answered. In ``grade`` people write 0 to 3, ``?`` for "cannot tell" or
``skip``; an empty cell is not answered. Rows that are left empty above an answered one count as
asked and missing, and are asked first in the next sheet. What goes into the log is the probability
by the last row that was answered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from rag_assets.errors import DataError, MissingArtifact, NotEvaluated, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.units import text_digest
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.logs import (
    CANNOT_TELL,
    HIGHEST_GRADE,
    JUDGED,
    PERSON,
    SKIPPED,
    LoggedJudgment,
    Range,
    Status,
    acted_marks,
    design_file,
    drawn_items,
    left_out,
    read_judgments,
    read_marks,
)
from rag_assets.labels.pool import PooledUnit, label_pool, texts_of, units_in
from rag_assets.labels.sampling.design import Design, new_design, read_design, write_design
from rag_assets.labels.sampling.label_sample import (
    LabelSample,
    SampledPool,
    earlier_labels,
    not_answered,
    valid_judgments,
)
from rag_assets.labels.sampling.sample_stage import clusters_of, question_ids, sampled_passages
from rag_assets.labels.sheets import Cells, CsvSheet, cut_note, refuse, shown_span, whole_number
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stored_evaluation import StoredEvaluation
from rag_assets.plain_text import fitting
from rag_assets.progress import Progress
from rag_assets.schemas import column_values
from rag_assets.sources.fields import Place, shown
from rag_assets.sources.row_files import read_csv
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY
from rag_assets.sources.tables import KnownIds
from rag_assets.store.settings import StoreSettings


def labelling_pipeline(path: Path, settings: StoreSettings, progress: Progress) -> Pipeline:
    """Return a pipeline on questions and labels as they were when they were evaluated last.

    A mark makes the evaluation stale, and who marks a question wants to go on labelling.
    """
    pipeline = Pipeline(open_experiment(path, settings), settings, progress)
    try:
        evaluation = read_current(pipeline.root)
    except NotEvaluated:
        return pipeline
    had_qrels = pipeline.experiment.has_qrels
    if pipeline.experiment.has_graded_pool:  # the last grade may have come since then
        had_qrels = bool(evaluation.entries_of(QRELS_KEY.asset))
    manifest = StoredEvaluation(pipeline.root, evaluation).manifest(QUERIES_KEY)
    if manifest is None:
        return pipeline
    then = replace(pipeline.experiment, marks=acted_marks(manifest.config), has_qrels=had_qrels)
    return Pipeline(then, settings, progress)


def sampled_pool(
    pipeline: Pipeline, depth: int, seed: int = 0, *, is_asked: bool = True
) -> SampledPool:
    """Return the sample of an experiment, extended by new systems.

    ``depth`` ranks of each retriever are in the pool. A sample that exists keeps its own seed.
    Questions that people left out do not count any more, also before the next evaluation. The
    design is written only where people ``is_asked``: with new passages in it labels that were
    complete are a sample again.

    Raises:
        UsageError: no run is as deep.
        MissingArtifact: the experiment must be evaluated first.
        DataError: the design or the log was damaged.
    """
    experiment = pipeline.experiment
    _check_depth(experiment, depth)
    evaluated = evaluated_retrievers(pipeline)
    rest = [name for name in experiment.retrievers if name not in evaluated]
    if rest:
        raise MissingArtifact(
            f"the sample is drawn from all retrievers, and {', '.join(rest)} have no results yet: "
            f"run `rag-assets evaluate {experiment.source}`, or use `rag-assets pool "
            f"{experiment.source}`, which writes a sheet of what is evaluated"
        )
    log = experiment.judgments_log
    file = design_file(log)
    stored = read_design(file) if file.is_file() else None
    out = set(left_out(read_marks(experiment.question_marks_file)))
    ids = [name for name in question_ids(pipeline.artifact) if name not in out]
    passages = sampled_passages(experiment, pipeline.artifact, depth)
    pool = label_pool(passages, ids, depth, stored.items if stored is not None else ())
    weights = pool.weights(Metric("dcg", depth))
    if stored is None:
        design = new_design(pool.items, weights, seed)
    else:
        design = stored.extended(pool.items, weights, drawn_items(read_judgments(log)))
    if is_asked and design is not stored:
        write_design(design, file)
    clusters = clusters_of(experiment, pipeline.artifact, ids)
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    return SampledPool(pool, design, log, documents, tuple(earlier_labels(passages)), clusters)


def run_pool(pipeline: Pipeline, depth: int) -> set[PooledUnit]:
    """Return what the retrievers found in their first ``depth`` ranks and nobody judged yet."""
    experiment = pipeline.experiment
    _check_depth(experiment, depth)
    names = evaluated_retrievers(pipeline)
    passages = sampled_passages(experiment, pipeline.artifact, depth, names)
    tables = [table.filter(table["label"].is_null()) for table in passages.values()]
    units = {unit for table in tables for unit in units_in(table)}
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    return not_answered(units, valid_judgments(experiment.judgments_log, documents)[0])


def evaluated_retrievers(pipeline: Pipeline) -> list[str]:
    """Return the retrievers that the last evaluation has a run of; all before the first one."""
    names = list(pipeline.experiment.retrievers)
    try:
        entries = read_current(pipeline.root).entries
    except NotEvaluated:
        return names
    runs = {entry.partition["retriever"] for entry in entries if entry.asset.endswith("_runs")}
    return [name for name in names if name in runs] or names


def _check_depth(experiment: Experiment, depth: int) -> None:
    deepest = max(experiment.top_k)
    if depth > deepest:
        problem = f"depth {depth} is deeper than the runs of {experiment.name}"
        raise UsageError(f"{problem}; allowed: at most {deepest}, the largest top_k")


EVIDENCE, GRADE, PROBABILITY, SOURCE = "evidence", "grade", "probability", "source"

POOL = "pool"
"""Who judged what a sheet of a pool says."""

_COLUMNS = ("query_id", "query", "document_id", "start", "end", "title", "text", EVIDENCE, GRADE)
SHEET = CsvSheet(_COLUMNS, (EVIDENCE, GRADE), frozenset({EVIDENCE}))
SAMPLE_SHEET = CsvSheet((PROBABILITY, *_COLUMNS), SHEET.answer, SHEET.optional)

_ANSWERS: dict[str, tuple[int | None, Status]] = {
    **{f"{n}{zero}": (n, JUDGED) for n in range(HIGHEST_GRADE + 1) for zero in ("", ".0")},
    "?": (None, CANNOT_TELL),
    "skip": (None, SKIPPED),
}


def next_units(sample: LabelSample, n: int, documents: pa.Table) -> list[PooledUnit]:
    """Return the next ``n`` items of a sample whose text is there, and whose question counts."""
    ends = {name: len(text) for name, text in texts_of(documents).items()}
    items = (sample.pool.items[i] for i in sample.next_items() if sample.pool.counted[i])
    return [item for item in items if item.end <= ends.get(item.document_id, -1)][:n]


def sheet_text(
    units: Sequence[PooledUnit],
    documents: pa.Table,
    queries: pa.Table,
    sample: LabelSample | None = None,
) -> str:
    """Return the sheet of some units, in their order, as CSV with empty columns to fill in.

    Of a text that a cell cannot take the beginning is shown, and where the rest stands. Units of a
    ``sample`` have their probability, of being asked when all of them are answered.
    """
    questions = dict(column_values(queries, "query_id", "text"))
    titles = dict(column_values(documents, "document_id", "title"))
    texts = texts_of(documents)
    rows: list[tuple[object, ...]] = []
    for unit in units:
        names = questions[unit.query_id], titles[unit.document_id]
        query, title = (fitting(text, cut_note) for text in names)
        passage = _passage(unit, texts[unit.document_id])
        rows.append((unit.query_id, query, *unit[1:], title, passage, "", ""))
    if sample is None:
        return SHEET.text(rows)
    number_of = {item: number for number, item in enumerate(sample.pool.items)}
    numbers = [number_of[unit] for unit in units]
    answered = sample.touched & ~sample.certain
    answered[numbers] = True
    p = sample.design.drawn_probabilities(answered)[numbers]
    return SAMPLE_SHEET.text((f"{p:.4g}", *row) for p, row in zip(p, rows, strict=True))


def _passage(unit: PooledUnit, text: str) -> str:
    def rest(n_shown: int) -> str:
        where = f"characters {unit.start + n_shown}-{unit.end} of the document"
        return f"\n[... the cell is full: continue at {where}]"

    return fitting(text[unit.start : unit.end], rest)


def is_sample_sheet(file: Path) -> bool:
    """Return whether a sheet is of a sample, so that it is never taken for complete labels."""
    _, cells = next(iter(read_csv(file)), (0, {}))
    return PROBABILITY in cells


def read_sheet(
    file: Path, documents: pa.Table, queries: pa.Table, design: Design | None = None
) -> tuple[list[tuple[LoggedJudgment, Place]], int]:
    """Return the rows of a sheet that were filled in with their places, and how many were not.

    Args:
        file: the sheet.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        design: of the sample that the sheet is of; None: it is of a pool.

    Raises:
        DataError: a column is missing, or a row has another grade, is of no passage that was asked
            about or of a text that is no longer there, or two rows on one passage differ; the first
            problem is told, the others are counted.
    """
    query_ids = KnownIds("query", queries.column("query_id"))
    document_ids = KnownIds("document", documents.column("document_id"))
    texts = documents.column("text")
    items = set(design.items) if design is not None else None

    def read(cells: Cells, place: Place) -> LoggedJudgment:
        if cells.get(SOURCE, "").strip() not in ("", PERSON, POOL):
            problem = f"is {shown(cells[SOURCE])}; verdicts and votes are lines of the log"
            raise place.error(problem, SOURCE)
        status: Status
        grade: int | None
        if items is None:
            grade, status = whole_number(cells, GRADE, place), JUDGED
        else:
            cell = cells[GRADE].strip().lower()
            if cell not in _ANSWERS:
                allowed = f"0 to {HIGHEST_GRADE}, ? for cannot tell, or skip"
                raise place.error(f"is {shown(cells[GRADE])}; allowed: {allowed}", GRADE)
            grade, status = _ANSWERS[cell]
        query_ids.row(cells["query_id"], place, "query_id")
        row = document_ids.row(cells["document_id"], place, "document_id")
        text = texts[row].as_py()
        start, end = shown_span(cells, "text", text, place)
        unit = PooledUnit(cells["query_id"], cells["document_id"], start, end)
        if items is not None and unit not in items:
            problem = "is not a passage in the sample of this experiment"
            hint = "was the sheet edited, or does it belong to another sample?"
            raise place.error(f"{shown(cells['text'])} {problem}; {hint}", "text")
        evidence = _copied(cells, unit, text[start:end], grade, place)
        source = POOL if items is None else PERSON
        part = () if evidence == ((start, end),) else evidence
        digest = text_digest(text[start:end])
        return LoggedJudgment(*unit, grade, status, source=source, evidence=part, digest=digest)

    def parts(row: LoggedJudgment) -> tuple[object, object]:
        return ((row.item, row.evidence), row.grade) if items is None else (row.item, row)

    return (SHEET if design is None else SAMPLE_SHEET).filled(file, read, parts)


def _copied(
    cells: Cells, unit: PooledUnit, passage: str, grade: int | None, place: Place
) -> tuple[Range, ...]:
    """Return where the copied part of a passage stands; none where nothing was copied.

    Raises:
        DataError: it is not in the passage, is there twice, or the grade is not above 0.
    """
    copied = cells.get(EVIDENCE, "").strip()
    if not copied:
        return ()
    lines = "(?:\r\n|\r|\n)".join(map(re.escape, re.split("\r\n|\r|\n", copied)))
    spans = [match.span() for match in re.finditer(lines, passage)]
    if len(spans) != 1:
        how = f"occurs in the text {len(spans)} times" if spans else "is not in the text"
        problem = f"{shown(copied)} {how}; copy a part of the text that occurs only once"
        raise place.error(problem, EVIDENCE)
    if not grade:
        raise place.error("needs a grade of 1 or more, not 0", EVIDENCE)
    return ((unit.start + spans[0][0], unit.start + spans[0][1]),)


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
    drawn = {line.item: line for line in lines if not line.is_hint}
    problems: list[DataError] = []
    new = []
    for answer, place in answers:
        line = drawn.get(answer.item)
        if line is None or (line.status == SKIPPED and answer.status != SKIPPED):
            new.append(answer)
        elif SKIPPED in (line.status, answer.status):
            continue  # one that was skipped again, or answered meanwhile, says nothing new
        elif (line.grade, line.status) != (answer.grade, answer.status):
            grades = answer.grade, line.grade
            given, logged = ("cannot tell" if n is None else str(n) for n in grades)
            who = f" by {shown(line.by)}" if line.by else ""
            problem = f"is {given}, but the log has {logged}{who} for this passage"
            hint = "empty the cell, or undo the grade on the page"
            problems.append(place.error(f"{problem}; {hint}", GRADE))
        elif answer.evidence and answer.evidence != line.evidence:
            new.append(answer)
    refuse(problems)
    labelled = drawn_items(lines) | {answer.item for answer in new}
    touched = np.array([item in labelled for item in design.items], np.bool_)
    p = dict(zip(design.items, design.drawn_probabilities(touched).tolist(), strict=True))
    return [
        msgspec.structs.replace(answer, probability=p[answer.item], by=by, at=at) for answer in new
    ]
