"""``rag-assets judge``: have people label answers, and hand on what judges said."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec.structs import replace

from rag_assets.analysis.judged import check_sheets
from rag_assets.cli.labelling import hand_out
from rag_assets.cli.progress_bars import progress_bar
from rag_assets.cli.terminal import output, print_data, print_line, print_message
from rag_assets.errors import RagAssetsError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.answer_labels import (
    claim_sheet,
    drawn_questions,
    labelled_questions,
    read_answer_labels,
    read_claim_labels,
    read_sheet,
    sheet_rows,
    sheet_text,
)
from rag_assets.judges.calibration_stage import (
    asked_answers,
    asked_claims,
    asked_passages,
    chosen_clusters,
    clusters_by_split,
    probabilities,
)
from rag_assets.judges.check import Rules, check_judge, export_verdicts, judges_to_check
from rag_assets.labels.experiment_pool import read_sheet as read_passage_sheet
from rag_assets.labels.experiment_pool import sheet_text as passage_sheet_text
from rag_assets.labels.logs import HIGHEST_GRADE, PERSON, append_lines
from rag_assets.labels.sampling.label_sample import valid_judgments
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.schemas import column_values
from rag_assets.sheets.formats import as_json
from rag_assets.sheets.terminal_table import sheets_view
from rag_assets.sources.row_files import read_csv
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY

FAILED, CANNOT_TELL = 1, 3


def write_sheet(
    path: Path,
    store: Path | None,
    questions: int,
    passages: bool,
    claims: bool,
    split: str | None,
    out: Path | None,
) -> None:
    """Draw questions of PATH at random, and write a sheet of their answers for people to label."""
    pipeline = _opened(path, store)
    if not passages and not pipeline.experiment.answerers:
        raise UsageError(f"{path} has no `answers` to label; --passages labels passages")
    clusters = chosen_clusters(pipeline, split, passages=passages or claims)
    drawn = drawn_questions(clusters, questions)
    if claims:
        labels = read_claim_labels(pipeline.experiment.claim_labels)
        text, n_rows = claim_sheet(asked_claims(pipeline, drawn), labels)
    elif passages:
        text, n_rows = _passage_sheet(pipeline, drawn)
    else:
        file = _file(pipeline.experiment.answer_labels, pipeline.experiment)
        rows = sheet_rows(asked_answers(pipeline, drawn), read_answer_labels(file))
        text, n_rows = sheet_text(rows), len(rows)
    what = "claims" if claims else "passages" if passages else "answers"
    then = "" if claims else f"rag-assets judge import {shlex.quote(str(path))}"
    where = hand_out(text, out, then)
    print_message(f"{n_rows} {what} of {len(drawn)} drawn questions to label{where}")


def _passage_sheet(pipeline: Pipeline, drawn: Sequence[str]) -> tuple[str, int]:
    file = _file(pipeline.experiment.passage_labels, pipeline.experiment)
    documents, queries = (pipeline.artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY))
    labelled = {label.item for label in valid_judgments(file, documents)[0]}
    units = [unit for unit in asked_passages(pipeline, drawn) if unit not in labelled]
    return passage_sheet_text(units, documents, queries), len(units)


def import_sheet(path: Path, sheet: Path, store: Path | None, by: str | None) -> None:
    """Add the labels of SHEET to PATH, for answers or passages."""
    pipeline = _opened(path, store)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    if "grade" in next(read_csv(sheet), (0, {}))[1]:
        _import_passages(pipeline, sheet, by, at)
        return
    file = _file(pipeline.experiment.answer_labels, pipeline.experiment)
    splits = clusters_by_split(pipeline)
    every = [query_id for clusters in splits.values() for query_id in clusters]
    labels, n_open = read_sheet(sheet, asked_answers(pipeline, every))
    stored = read_answer_labels(file)
    labelled = {label.query_id for label in labels} | labelled_questions(stored)
    chances = probabilities(splits, labelled)
    answers_there = set(column_values(stored, "query_id", "answer", "correct", "by"))
    new = [
        replace(label, probability=chances[label.query_id], by=by, at=at)
        for label in labels
        if (label.query_id, label.answer, label.correct, by) not in answers_there
    ]
    unknown = f" ({sum(label.correct is None for label in new)} 'cannot tell')"
    append_lines(file, new)
    _say_added(f"{len(new)} labels added to {file}{unknown}", len(labels) - len(new), n_open)


def _import_passages(pipeline: Pipeline, sheet: Path, by: str | None, at: str) -> None:
    experiment = pipeline.experiment
    file = _file(experiment.passage_labels, experiment)
    documents, queries = (pipeline.artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY))
    graded, n_open = read_passage_sheet(sheet, documents, queries)
    for row, place in graded:
        if row.grade is not None and row.grade > HIGHEST_GRADE:
            raise place.error(f"is {row.grade}; must be from 0 to {HIGHEST_GRADE}", "grade")
    valid, _ = valid_judgments(file, documents)
    grades_there = {label.item: (label.grade, label.evidence, label.by) for label in valid}
    labelled = {item.query_id for item in [*grades_there, *(row.item for row, _ in graded)]}
    chances = probabilities(clusters_by_split(pipeline, passages=True), labelled)
    new = [
        replace(row, probability=chances.get(row.query_id), by=by, at=at, source=PERSON)
        for row, _ in graded
        if grades_there.get(row.item) != (row.grade, row.evidence, by)
    ]
    append_lines(file, new)
    _say_added(f"{len(new)} labels added to {file}", len(graded) - len(new), n_open)


def _say_added(added: str, n_there: int, n_open: int) -> None:
    print_message(f"{added}; {n_there} were there already; {n_open} rows still empty")


def check(
    path: Path,
    judge: str | None,
    items: int,
    at_least: float,
    seed: int,
    form: str,
    store: Path | None,
) -> None:
    """Test the judges of PATH: do they notice changed texts, and agree with people?"""
    pipeline = Pipeline.open(path, store, progress_bar)
    rules = Rules(items, at_least, seed)
    try:
        names = judges_to_check(pipeline, judge)
        with pipeline.evaluating():
            checks = [check_judge(pipeline, name, rules) for name in names]
    except RagAssetsError as error:
        if error.exit_code == FAILED:  # not to be mistaken for a judge that failed
            error.exit_code = CANNOT_TELL
        raise
    if form == "json":
        print_data(as_json(checks))
    else:
        for check in checks:
            output().print(sheets_view(check_sheets(check)))
    if not all(check["passed"] for check in checks):
        click.get_current_context().exit(FAILED)


def export(path: Path, judge: str, retriever: str | None, out: Path, store: Path | None) -> None:
    """Write the verdicts of a judge with its replies, word for word."""
    n_verdicts = export_verdicts(Pipeline.open(path, store), judge, out, retriever)
    print_line(f"{out}: {n_verdicts} verdicts of {judge}")


def _opened(path: Path, store: Path | None) -> Pipeline:
    pipeline = Pipeline.open(path, store, progress_bar)
    if not pipeline.experiment.judges:
        raise UsageError(f"{path} has no `judges`, so there is nothing to calibrate")
    return pipeline


def _file(file: Path | None, experiment: Experiment) -> Path:
    if file is None:
        raise UsageError(f"{experiment.source}: has no experiment.yaml to store labels next to")
    return file
