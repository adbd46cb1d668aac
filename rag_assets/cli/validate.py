"""``rag-assets validate``: what is wrong with documents, queries and qrels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from rag_assets.checks.validation import Validation, validate
from rag_assets.cli.options import Number, format_option, path_argument, store_option
from rag_assets.cli.progress_bars import progress_bar, work_board
from rag_assets.cli.terminal import messages, output, print_data, print_line, print_note
from rag_assets.labels.findings import DEFAULT_THRESHOLD
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.formats import Row, formatted
from rag_assets.report.label_health import FINDING_STYLES, findings_sheet
from rag_assets.report.terminal_table import sheet_view
from rag_assets.store.settings import StoreSettings

SHOWN = 10
"""So many findings of a kind are drawn for a terminal; the other formats hold all."""


@click.command("validate")
@path_argument
@store_option
@click.option(
    "--judged",
    type=Number(0, 1),
    default=DEFAULT_THRESHOLD,
    show_default=True,
    metavar="SHARE",
    help="Warn about cells of the last evaluation with a smaller share of judged "
    "results; 0 for never.",
)
@format_option
def command(path: Path, store: Path | None, judged: float, form: str) -> None:
    """Check documents, queries and labels of PATH. Exit with 1 if there is an error.

    It looks for unknown ids, quotes that moved or vanished, evidence that no chunk covers,
    duplicates, unjudged copies of judged texts, labels whose document has changed, and drift of the
    last evaluation from the anchor. Warnings do not change the exit code.

    Example: rag-assets validate data/handbook --format csv
    """
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
