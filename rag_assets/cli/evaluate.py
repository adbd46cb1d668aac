"""The main job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rag_assets.assets.evaluate import evaluate
from rag_assets.assets.evaluation_steps import EvaluationSummary
from rag_assets.checks.retriever_warnings import (
    narrow_search_warnings,
    prompt_warnings,
)
from rag_assets.cli.progress_bars import progress_bar, work_board
from rag_assets.cli.terminal import (
    Verbosity,
    messages,
    output,
    print_data,
    print_line,
    print_note,
    shown_path,
    verbosity,
)
from rag_assets.errors import Incomplete
from rag_assets.evaluation.query_facts import ALL
from rag_assets.experiment.hosts import circle_warnings, clients, host_notes
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.failed_queries import (
    failed_answers,
    failed_index_texts,
    try_again,
    unanswered,
    unfinished,
)
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.report.answers import answer_sheets
from rag_assets.report.formats import Row, dated, formatted
from rag_assets.report.html import write_report
from rag_assets.report.judged import headline_sheets
from rag_assets.report.label_health import pooling_advice
from rag_assets.report.leaderboard import result_rows, summary_sheet
from rag_assets.report.overlaps import overlap_rows, overlap_sheets
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sampled import sampled_sheets
from rag_assets.report.terminal_table import plain_cell, sheet_view, sheets_view
from rag_assets.report.view import View
from rag_assets.report.winner import winner_of
from rag_assets.sources.stage import DOCUMENTS_KEY
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
    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings)
    selection = Selection.of(experiment, retrievers, top_k)
    pipeline = Pipeline(experiment, settings, progress_bar, allow_code=allow_code)
    if retry_failed:
        messages().print(f"asked again: {try_again(pipeline)} queries that failed")
    notes = (*narrow_search_warnings(experiment), *prompt_warnings(experiment))
    for line in (*notes, *circle_warnings(experiment), *host_notes(clients(experiment))):
        messages().print(f"warning: {line}", soft_wrap=True)
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
    rows = (
        result_rows(result, selection, result.chosen_split())
        if labelled
        else overlap_rows(result, selection)
    )
    _print_notes(pipeline)
    if form != "table":
        made = work.evaluation
        print_data(formatted(dated(rows, form, made.evaluation_id, made.started), form))
    elif labelled:
        _print_answer(result, rows)
    else:
        split = result.chosen_split() if result.answer_metrics else ALL
        sheets = [
            *overlap_sheets(result, rows),
            *answer_sheets(result, split),
            *headline_sheets(result, split),
            *sampled_sheets(result)[:1],
        ]
        output().print(sheets_view(sheets))
    _print_advice(result, path)
    _print_unanswered(pipeline)
    if form == "table" and verbosity() is not Verbosity.QUIET:
        _print_places(settings, report, work, path if labelled else None)
    failed = unfinished(pipeline, selection.retrievers)
    answers, texts = failed_answers(pipeline), failed_index_texts(pipeline)
    if failed or answers or texts:
        raise Incomplete(_incomplete(failed, answers, texts, result.queries.num_rows))


def _incomplete(
    failed: Mapping[str, Collection[str]],
    answers: Mapping[str, int],
    texts: Mapping[str, int],
    n_queries: int,
) -> str:
    told = [
        f"{name} failed on {len(queries)} of {n_queries} queries"
        for name, queries in failed.items()
    ]
    told += [f"{name} lacks {n} of {n_queries} answers" for name, n in answers.items()]
    told += [f"{name} lacks texts of {n} chunks" for name, n in texts.items()]
    return f"incomplete: {', '.join(told)}; `rag-assets report` says why"


def _print_notes(pipeline: Pipeline) -> None:
    """Print what the readers found odd; nothing is dropped without a word."""
    for line in pipeline.experiment.unread_files:
        messages().print(f"note: {DOCUMENTS_KEY.asset}: {line}", soft_wrap=True)
    for stage in pipeline.stages():
        lines: dict[str, None] = {}  # cells that are cut from one ranking have the same notes
        told: set[Path] = set()
        for key in stage.keys(pipeline.experiment):
            artifact = pipeline.current(key)
            if artifact is None or artifact.path in told:
                continue
            told.add(artifact.path)
            names = [value for _, value in key.partition[:1]]
            for note in artifact.manifest.facts.get("notes", []):
                lines[": ".join([stage.name, *names, note])] = None
        for line in lines:
            messages().print(f"note: {line}")
    print_note(pipeline.experiment.unread_labels)


def _print_advice(result: EvaluationResult, path: Path) -> None:
    """Say on stderr that judging would help, where little or nothing of the runs is judged."""
    advice = pooling_advice(result)
    if advice is not None:
        command = f"rag-assets pool {shlex.quote(str(path))} --out sheet.csv"
        messages().print(f"note: {advice}: {command}", soft_wrap=True)


def _print_unanswered(pipeline: Pipeline) -> None:
    """Say on stderr which assets lack answers of a server, and how to ask for them again."""
    for key, number in unanswered(pipeline).items():
        what = "chunks" if key.asset == "index_texts" else "queries"
        line = f"note: {key}: no answer for {number} {what}; --retry-failed asks for them again"
        messages().print(line, soft_wrap=True)


def _print_answer(result: EvaluationResult, rows: Sequence[Row]) -> None:
    """Print who is best, then one leaderboard; `leaderboard` prints the other tables."""
    console = output()
    answer = winner_of(View(result)) if verbosity() is not Verbosity.QUIET else None
    if answer is not None:
        for line in (f"{answer.title}.", *answer.sentences):
            console.print(plain_cell(line))
        console.print("")
    console.print(sheet_view(summary_sheet(result, rows)))


def _print_places(
    settings: StoreSettings,
    report: Path,
    work: EvaluationSummary,
    labelled: Path | None,
) -> None:
    """Say where results are; without labels there is no leaderboard to show more of."""
    more = f"rag-assets leaderboard {shlex.quote(str(labelled))}"
    lines = {
        **({"more": more} if labelled else {}),
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
    store, home, dagster = (
        shlex.quote(str(path))
        for path in (
            settings.store,
            settings.dagster_home,
            Path(sys.executable).with_name("dagster"),
        )
    )
    return f"RAG_ASSETS_STORE={store} DAGSTER_HOME={home} {dagster} dev -m rag_assets.definitions"
