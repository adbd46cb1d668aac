"""What an evaluation would do, and whether the data for it is sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from rag_assets.api import plan
from rag_assets.checks.retriever_warnings import narrow_search_warnings, prompt_warnings
from rag_assets.checks.validation import Validation, validate
from rag_assets.cli.progress_bars import progress_bar, work_board
from rag_assets.cli.terminal import messages, output, print_data, print_line, print_note, print_rows
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.experiment.hosts import circle_warnings, clients, host_notes
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.formats import Row, formatted
from rag_assets.report.label_health import FINDING_STYLES, findings_sheet
from rag_assets.report.plan import ACTION_STYLES, flat_plan_rows, plan_rows, plan_sheet
from rag_assets.report.terminal_table import sheet_view
from rag_assets.sources.labelled_folder import QUERIES_FILE, LabelledFolder, examples_left
from rag_assets.store.settings import StoreSettings


def print_plan(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: tuple[int, ...],
    form: str,
    each: bool,
) -> None:
    """Say what `evaluate` would compute, and why, without computing anything."""
    experiment = load_experiment(path)
    warnings = (
        *_examples(experiment),
        *narrow_search_warnings(experiment),
        *prompt_warnings(experiment),
        *circle_warnings(experiment),
    )
    for line in (*warnings, *host_notes(clients(experiment))):
        messages().print(f"warning: {line}", soft_wrap=True)
    with work_board(lambda: "comparing the sources with the store"):
        steps = plan(path, store, retrievers, top_k)
    rows = plan_rows(steps) if form == "json" else flat_plan_rows(steps)
    print_rows(rows, form, lambda: [plan_sheet(steps, each=each)], styles=ACTION_STYLES)


def _examples(experiment: Experiment) -> Iterator[str]:
    """Yield a line where questions are still those that `init` wrote."""
    dataset = experiment.dataset
    if isinstance(dataset, LabelledFolder) and (n := examples_left(dataset.root / QUERIES_FILE)):
        questions = "example question" if n == 1 else "example questions"
        yield f"{QUERIES_FILE} still has {n} {questions} of `init`; `evaluate` asks for your own"


SHOWN = 10
"""So many findings of a kind are drawn for a terminal; the other formats hold all."""


def print_findings(path: Path, store: Path | None, judged: float, form: str) -> None:
    """Check documents, queries and labels of PATH. Exit with 1 if there is an error."""
    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings)
    pipeline = Pipeline(experiment, settings, progress_bar)
    with work_board(lambda: "looking at documents, queries and labels"):
        validation = validate(pipeline, judged_threshold=judged)
    findings = _located(validation.findings.to_pylist(), experiment.dataset.root)
    if form != "table":
        print_data(formatted(findings, form))
    elif findings:
        output().print(sheet_view(findings_sheet(findings, SHOWN), FINDING_STYLES))
        output().print("")
    for note in validation.notes:
        print_note(note)
    for reason in validation.skipped:
        messages().print(f"not checked: {reason}", soft_wrap=True)
    _print_summary(validation, form)
    if validation.n_errors:
        click.get_current_context().exit(1)


def _located(findings: list[Row], root: Path) -> list[Row]:
    """Name files as people see them: relative to the dataset."""
    for row in findings:
        file = Path(str(row["file"])) if row["file"] is not None else None
        if file is not None and file.is_relative_to(root):
            row["file"] = file.relative_to(root).as_posix()
    return findings


def _print_summary(validation: Validation, form: str) -> None:
    """Print one line: after the table, or on stderr where stdout is for a program."""
    kinds = Counter(validation.findings.column("check").to_pylist())
    listed = ", ".join(f"{count} {check}" for check, count in kinds.most_common())
    rows = validation.rows
    errors = _counted(validation.n_errors, "error")
    warnings = _counted(validation.n_warnings, "warning")
    line = (
        f"{errors}, {warnings} in "
        f"{rows['documents']} documents, {rows['queries']} queries, {rows['qrels']} judgments"
    )
    text = f"{line}: {listed}" if listed else line
    if form == "table":
        print_line(text)
    else:
        messages().print(text, soft_wrap=True)


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
