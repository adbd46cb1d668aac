"""What an evaluation computes, what it would compute, and whether the data is sound."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from rag_assets.analysis.label_health import FINDING_STYLES, findings_sheet, pooling_advice
from rag_assets.analysis.leaderboard import selected_rows, summary_sheet
from rag_assets.analysis.overlaps import overlap_rows, overlap_sheets
from rag_assets.analysis.plan import ACTION_STYLES, flat_plan_rows, plan_rows, plan_sheet
from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.winner import winner_of
from rag_assets.assets.evaluate import evaluate
from rag_assets.assets.evaluation_steps import EvaluationSummary
from rag_assets.checks.retriever_warnings import narrow_search_warnings, prompt_warnings
from rag_assets.checks.validation import Validation
from rag_assets.cli.progress_bars import progress_bar, work_board
from rag_assets.cli.terminal import (
    Verbosity,
    output,
    print_data,
    print_line,
    print_message,
    print_note,
    print_rows,
    print_warnings,
    shown_path,
    verbosity,
    with_store,
)
from rag_assets.errors import Incomplete
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import clients, host_notes, judge_and_question_warnings
from rag_assets.pipeline.failed_queries import left_open, try_again, unanswered, unfinished
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.plan import plan
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.report.html import write_report
from rag_assets.sheets.formats import Row, formatted
from rag_assets.sheets.sheet import Sheet
from rag_assets.sheets.terminal_table import plain_cell, sheet_view
from rag_assets.sources.labelled_folder import QUERIES_FILE, LabelledFolder, examples_left
from rag_assets.sources.stage import DOCUMENTS_KEY, QUESTIONS_KEY
from rag_assets.store.settings import DEFAULT_STORE, StoreSettings


def run_evaluation(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: tuple[int, ...],
    form: str,
    explorer: bool,
    retry_failed: bool,
    allow_code: bool,
) -> None:
    """Compute what is out of date, then print the leaderboard."""
    pipeline = Pipeline.open(path, store, progress_bar, allow_code=allow_code)
    experiment = pipeline.experiment
    selection = Selection.of(experiment, retrievers, top_k)
    if retry_failed:
        print_message(f"retrying: {try_again(pipeline)} failed queries")
    _print_warnings(experiment)
    total = sum(map(len, required_partitions(experiment, selection).values()))
    with work_board(
        lambda: f"{pipeline.n_computed} of at most {total} computed  {pipeline.at_work}"
    ):
        work = evaluate(pipeline, selection)
        result = EvaluationResult(pipeline.root, work.evaluation)
        pipeline.at_work = "writing the report"
        report = write_report(result)
        if explorer:
            report = write_report(result, has_explorer=True)
    labelled = result.has_metrics
    rows = selected_rows(result, selection) if labelled else overlap_rows(result, selection)
    _print_notes(pipeline)
    if form == "table" and labelled:
        _print_answer(result, rows)
    else:
        print_rows(rows, form, lambda: _unlabelled_sheets(result, rows), work.evaluation)
    _print_advice(result, path)
    _print_unanswered(pipeline)
    if form == "table" and verbosity() is not Verbosity.QUIET:
        _print_places(pipeline.settings, report, work, path if labelled else None)
    failed = unfinished(pipeline, selection.retrievers)
    answers, texts = left_open(pipeline, "answers"), left_open(pipeline, "index_texts")
    if failed or answers or texts:
        raise Incomplete(_incomplete(path, failed, answers, texts, result.queries.num_rows))


def _unlabelled_sheets(result: EvaluationResult, rows: Sequence[Row]) -> list[Sheet]:
    from rag_assets.report.page.page import sheets_below  # an evaluation without change needs none

    return [*overlap_sheets(result, rows), *sheets_below(result)]


def _print_warnings(experiment: Experiment, more: Iterable[str] = ()) -> None:
    """Print what is odd about an experiment, before anything is computed."""
    warnings = (
        *more,
        *narrow_search_warnings(experiment),
        *prompt_warnings(experiment),
        *judge_and_question_warnings(experiment),
        *host_notes(clients(experiment)),
    )
    print_warnings(warnings)


def _incomplete(
    path: Path,
    failed: Mapping[str, Collection[str]],
    answers: Mapping[str, int],
    texts: Mapping[str, int],
    n_queries: int,
) -> str:
    gaps = [
        f"{name} failed on {len(queries)} of {n_queries} queries"
        for name, queries in failed.items()
    ]
    gaps += [f"{name} lacks {n} of {n_queries} answers" for name, n in answers.items()]
    gaps += [f"{name} lacks texts of {n} chunks" for name, n in texts.items()]
    return f"incomplete: {', '.join(gaps)}; `rag-assets report {shlex.quote(str(path))}` shows why"


def _print_notes(pipeline: Pipeline) -> None:
    """Print what the readers found odd; nothing is dropped without a word."""
    for line in pipeline.experiment.unread_files:
        print_note(f"{DOCUMENTS_KEY.asset}: {line}")
    for stage in pipeline.stages():
        lines: dict[str, None] = {}  # cells that are cut from one ranking have the same notes
        files: set[Path] = set()
        for key in stage.keys(pipeline.experiment):
            artifact = pipeline.current(key)
            if artifact is None or artifact.path in files:
                continue
            files.add(artifact.path)
            names = [value for _, value in key.partition[:1]]
            for note in artifact.manifest.facts.get("notes", []):
                lines[": ".join([stage.name, *names, note])] = None
        for line in lines:
            print_note(line)


def _print_advice(result: EvaluationResult, path: Path) -> None:
    """Say on stderr that judging would help, where little or nothing of the runs is judged."""
    advice = pooling_advice(result)
    if advice is not None:
        print_note(f"{advice}: rag-assets pool {shlex.quote(str(path))} --out sheet.csv")


def _print_unanswered(pipeline: Pipeline) -> None:
    """Say on stderr which assets lack answers of a server, and how to ask for them again."""
    for key, number in unanswered(pipeline).items():
        what = "chunks" if key.asset in ("index_texts", QUESTIONS_KEY.asset) else "queries"
        text = f"no answer for {number} of the {what}; --retry-failed asks for them again"
        print_message(f"note: {key}: {text}")


def _print_answer(result: EvaluationResult, rows: Sequence[Row]) -> None:
    """Print who is best, then one leaderboard; `leaderboard` prints the other tables."""
    console = output()
    answer = winner_of(result) if verbosity() is not Verbosity.QUIET else None
    if answer is not None:
        for line in (f"{answer.title}.", *answer.sentences):
            console.print(plain_cell(line))
        console.print("")
    console.print(sheet_view(summary_sheet(result, rows)))


def _print_places(
    settings: StoreSettings, report: Path, work: EvaluationSummary, labelled: Path | None
) -> None:
    """Say where results are; without labels there is no leaderboard to show more of."""
    more = f"rag-assets leaderboard {shlex.quote(str(labelled))}"
    lines = {
        **({"more": with_store(more)} if labelled else {}),
        "evaluation": f"{work.evaluation.evaluation_id}: {work.computed} partitions computed, "
        f"{work.reused} reused, {work.seconds:.1f} s",
        "report": shown_path(report),
        "warehouse": shown_path(settings.warehouse),
        "UI": _ui_command(settings),
    }
    print_line("")
    for name, text in lines.items():
        print_line(f"{name:<11}{text}")


def _ui_command(settings: StoreSettings) -> str:
    """Return the command that shows these runs in the Dagster UI."""
    files = [Path(name) for name in ("workspace.yaml", "dagster.yaml", "Makefile")]
    in_checkout = all(map(Path.is_file, files)) and "\nui:" in files[-1].read_text(errors="replace")
    if in_checkout and settings.store == DEFAULT_STORE.absolute():
        return "run `make ui`, then open http://127.0.0.1:3000"
    variables = {
        "RAG_ASSETS_STORE": settings.place,
        **({"RAG_ASSETS_STATE_DIR": settings.state_dir} if settings.address is not None else {}),
        "DAGSTER_HOME": settings.dagster_home,
    }
    given = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
    dagster = shlex.quote(str(Path(sys.executable).with_name("dagster")))
    return f"{given} {dagster} dev -m rag_assets.definitions"


def print_plan(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: tuple[int, ...],
    form: str,
    each: bool,
) -> None:
    """Say what `evaluate` would compute, and why, without computing anything."""
    pipeline = Pipeline.open(path, store)
    selection = Selection.of(pipeline.experiment, retrievers, top_k)
    _print_warnings(pipeline.experiment, _examples(pipeline.experiment))
    with work_board(lambda: "comparing the sources with the store"):
        steps = plan(pipeline, selection)
    rows = plan_rows(steps) if form == "json" else flat_plan_rows(steps)
    print_rows(rows, form, lambda: [plan_sheet(steps, each=each)], styles=ACTION_STYLES)


def _examples(experiment: Experiment) -> Iterator[str]:
    """Yield a line where questions are still those that `init` wrote."""
    dataset = experiment.dataset
    if isinstance(dataset, LabelledFolder) and (n := examples_left(dataset.root / QUERIES_FILE)):
        questions = "example question" if n == 1 else "example questions"
        yield f"{QUERIES_FILE} still has {n} {questions} from `init`; replace them with your own"


MAX_FINDINGS = 10
"""So many findings of a kind are drawn for a terminal; the other formats hold all."""


def print_findings(path: Path, store: Path | None, form: str) -> None:
    """Check documents, queries and labels of PATH. Exit with 1 if there is an error."""
    pipeline = Pipeline.open(path, store, progress_bar)
    with work_board(lambda: "checking documents, queries and labels"):
        validation = Validation(pipeline)
    findings = _located(validation.findings.to_pylist(), pipeline.experiment.dataset.root)
    if form != "table":
        print_data(formatted(findings, form))
    elif findings:
        output().print(sheet_view(findings_sheet(findings, MAX_FINDINGS), FINDING_STYLES))
        output().print("")
    for note in validation.notes:
        print_note(note)
    for reason in validation.skipped:
        print_message(f"not checked: {reason}")
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
    warnings = _counted(len(validation.findings) - validation.n_errors, "warning")
    line = (
        f"{errors}, {warnings} in "
        f"{rows['documents']} documents, {rows['queries']} queries, {rows['qrels']} judgments"
    )
    say = print_line if form == "table" else print_message
    say(f"{line}: {listed}" if listed else line)


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
