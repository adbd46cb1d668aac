"""Tables, page and runs of the last evaluation, and a dataset in another format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.analysis.answers import answer_rows, answer_sheets, evidence_sheets
from rag_assets.analysis.attribution import (
    attribution_rows,
    attribution_sheet,
    lost_rows,
    lost_sheet,
    waterfall_rows,
    waterfall_sheet,
)
from rag_assets.analysis.evaluation_pairs import MetricSource
from rag_assets.analysis.judged import headline_sheets
from rag_assets.analysis.latency import latency_rows, latency_sheet
from rag_assets.analysis.leaderboard import leaderboard_sheets, selected_rows
from rag_assets.analysis.metric_sources import named_source
from rag_assets.analysis.online import interleaved, online_tables, sheets_of
from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.sampled import decisive_sheets
from rag_assets.analysis.slices import TAG, slices_of, slices_sheet
from rag_assets.answers.waterfall_stage import NEEDED
from rag_assets.api import history
from rag_assets.cli.options import cell_names, refuse_given
from rag_assets.cli.terminal import print_line, print_note, print_rows, shown_path
from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.query_facts import ALL, DEV, TEST
from rag_assets.evaluation.run_files import write_run
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_names import open_evaluations
from rag_assets.pipeline.selection import Selection
from rag_assets.schemas import QRELS
from rag_assets.sheets.formats import Rows
from rag_assets.sheets.sheet import Sheet
from rag_assets.sources.dataset import Read
from rag_assets.sources.writers import Tables, write_dataset
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import canonical_json

Table = tuple[Rows, Sequence[Sheet]]
"""Rows for programs, and what people read."""

_REFUSED = {
    "latency": (
        ["slice_by", "metric", "top_k", "budget", "split", "answers"],
        "does not apply to --latency, which covers whole rankings",
    ),
    "answers": (
        ["slice_by", "metric", "top_k", "budget", "retrievers", "ties"],
        "does not apply to --answers",
    ),
    "online": (
        ["slice_by", "metric", "top_k", "budget", "split", "answers", "ties", "retrievers"],
        "does not apply to --online, which covers all searches in the log",
    ),
    "ties": (["latency", "slice_by", "metric", "budget"], "does not apply to --ties"),
    "budget": (
        ["slice_by", "top_k"],
        "does not apply to --budget, which fills the budget from the deepest run",
    ),
    "slice_by": (["top_k"], "does not apply to --by, which shows one metric with its own cut-off"),
}
"""Option that asks for another table -> options that it would drop, and why."""


def print_leaderboard(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: tuple[int, ...],
    form: str,
    slice_by: str | None,
    answers: bool,
    latency: bool,
    budget: int | None,
    ties: bool,
    online: bool,
    metric: str | None,
    split: str | None,
) -> None:
    """Print the leaderboard, or the table of the last evaluation that an option asks for."""
    given = click.get_current_context().params
    for refused in (refused for option, refused in _REFUSED.items() if given[option]):
        refuse_given(*refused)
    if metric and not slice_by:
        raise UsageError("--metric needs --by; the leaderboard itself shows all metrics")
    experiment, names = open_evaluations(path, store)
    selection = Selection.of(experiment, retrievers, top_k)
    result = EvaluationResult.current(names.root, split)
    if latency:
        rows = latency_rows(result, experiment, selection.retrievers)
        table: Table = rows, [latency_sheet(experiment.name, rows)]
    elif answers or online:
        table = _answers(result) if answers else _online(result)
    elif budget is not None:
        table = _budget(result, selection, budget)
    elif slice_by:
        table = _slices(result, selection, slice_by, named_source(metric, result.primary))
    elif ties:
        table = _ties(result, selection)
    elif not result.has_metrics and not split and (sampled := decisive_sheets(result)):
        # Without complete labels they are all there is.
        table = result.rows_of("sampled_estimates"), sampled
    else:
        table = _board(result, selection)
    print_rows(table[0], form, lambda: table[1], result.evaluation)


def _board(result: EvaluationResult, selection: Selection) -> Table:
    from rag_assets.report.page.page import sheets_below

    result.check_labels()
    new = [name for name in selection.retrievers if name not in result.run_retrievers]
    print_note(f"not in the last evaluation: {', '.join(new)}" if new else None)
    rows = selected_rows(result, selection)
    if not rows:
        raise result.lacks("has none of these cells")
    return rows, [*leaderboard_sheets(result, rows), *sheets_below(result)]


def _answers(result: EvaluationResult) -> Table:
    if not result.answer_metrics:
        raise result.lacks("has no answers")
    return answer_rows(result), [*answer_sheets(result), *headline_sheets(result)]


def _online(result: EvaluationResult) -> Table:
    tables = online_tables(result)
    if not any(tables.values()):
        raise result.lacks("has no searches or votes of users (`online` in experiment.yaml)")
    rows = [{"table": name, **row} for name, table in tables.items() for row in table]
    return rows, sheets_of(tables)


def _budget(result: EvaluationResult, selection: Selection, budget: int) -> Table:
    from rag_assets.analysis.recomputed_boards import budget_rows, budget_sheet

    rows = budget_rows(result, selection.retrievers, budget)
    print_note(result.tuning_note(selection.retrievers))
    return rows, [budget_sheet(result, rows)]


def _ties(result: EvaluationResult, selection: Selection) -> Table:
    from rag_assets.analysis.recomputed_boards import tie_rows, tie_sheet

    result.check_labels()
    cutoffs = selection.top_k
    top_k = result.primary.cutoff if result.primary.cutoff in cutoffs else max(cutoffs)
    rows = tie_rows(result, selection.retrievers, top_k)
    print_note(result.tuning_note(selection.retrievers))
    return rows, [tie_sheet(result, rows)]


def _slices(result: EvaluationResult, selection: Selection, by: str, source: MetricSource) -> Table:
    name, split = result.evaluation.experiment, result.split
    source.check(result)
    whose = list(source.cells(result)) if source.is_of_answers else selection.retrievers
    if not set(source.cells_with(result)) & set(whose):
        raise result.lacks(f"has no cell of {source.metric}")
    slices = slices_of(result, source, whose, by)
    if not slices:
        what = "a tag" if by == TAG else f"a value of {by}"
        raise DataError(f"no answerable query of {name} has {what}")
    if not source.is_of_answers:
        print_note(result.tuning_note(selection.retrievers))
    metric, where = str(source.metric), {} if split == ALL else {"split": split}
    rows = [
        source.with_subject(
            {by: part.value, **where, "n_queries": part.n_queries, "retriever": who, metric: value}
        )
        for part in slices
        for who, value in part.means.items()
    ]
    return rows, [slices_sheet(slices, metric, by, split)]


def print_attribution(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    slice_by: str | None,
    split: str | None,
    queries: bool,
    answers: bool,
    form: str,
) -> None:
    """Print at which stage each retriever found or lost the evidence, or each answer was lost."""
    if answers:
        others = ["retrievers", "slice_by", "queries"]
        refuse_given(others, "does not apply to --answers, which covers all answerers")
    if queries and slice_by:
        raise UsageError("--queries lists evidences one by one; --by does not apply to it")
    experiment, names = open_evaluations(path, store)
    selection = Selection.of(experiment, retrievers)
    result = EvaluationResult.current(names.root, split)
    if answers:
        if not result.answer_metrics:
            result.check_labels()
        lines = waterfall_rows(result)
        if not lines:
            needs = f"`answers` in experiment.yaml, labels, and the metrics {', '.join(NEEDED)}"
            raise result.lacks(f"cannot show where questions went wrong; that needs {needs}")
        sheet = waterfall_sheet(f"{experiment.name}: from corpus to answer", lines)
        print_rows(lines, form, lambda: [sheet, *evidence_sheets(result)], result.evaluation)
        return
    rows = attribution_rows(result, selection.retrievers, slice_by)
    if not rows and slice_by:
        raise DataError(
            f"no query of {experiment.name} with an evidence is in a slice by {slice_by}"
        )
    if not rows:
        raise result.lacks("has no labelled evidence")
    lost = lost_rows(result, selection.retrievers) if queries else []
    print_rows(
        lost if queries else rows,
        form,
        lambda: [
            attribution_sheet(experiment.name, rows, slice_by),
            *([lost_sheet(lost)] if lost else []),
        ],
        result.evaluation,
    )


def print_history(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    answerers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    last: int,
    form: str,
) -> None:
    """Print a metric over the evaluations of PATH, with what changed between them."""
    from rag_assets.analysis.history import flat_history_rows  # no other table reads the history

    whose = cell_names(retrievers, answerers)
    past = history(path, metric, store=store, retrievers=whose, split=split, last=last)
    rows = past.rows if form == "json" else flat_history_rows(past.rows)
    print_rows([past.source.with_subject(row) for row in rows], form, lambda: [past.sheet()])


def write_page(path: Path, out: Path | None, explorer: bool, store: Path | None) -> None:
    """Write the last evaluation of PATH as one HTML page, and print where it is."""
    from rag_assets.report.html import write_report

    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file, such as {out / 'report.html'}")
    _, names = open_evaluations(path, store)
    result = EvaluationResult.current(names.root)
    print_line(shown_path(write_report(result, out, has_explorer=explorer)))


def write_run_file(
    path: Path, retriever: str, top_k: int | None, split: str | None, out: Path, store: Path | None
) -> None:
    """Write what a retriever returned in the last evaluation of PATH."""
    experiment, names = open_evaluations(path, store)
    Selection.of(experiment, (retriever,))
    result = EvaluationResult.current(names.root, split)
    keys = result.run_keys(retriever)
    if not keys:
        raise result.lacks(f"has no run of {retriever}")
    chosen = max(keys) if top_k is None else top_k
    if chosen not in keys:
        cutoffs = ", ".join(map(str, sorted(keys)))
        raise UsageError(f"--top-k {chosen}: {retriever} has runs at {cutoffs}")
    run, failures = result.table(keys[chosen]), result.failures(keys[chosen])
    note = _note_on_splits(result) if split is None and result.has_metrics else None
    if split is not None:
        weights = result.weights(result.split)
        run = run.filter(pc.is_in(run["query_id"], pa.array(list(weights), pa.string())))
        failures = {name: reason for name, reason in failures.items() if name in weights}
    for note_on_file in write_run(run, out, tag=retriever, failures=failures):
        print_note(f"{out}: {note_on_file}")
    n_queries = len(run.column("query_id").unique())
    print_line(f"{out}: {n_queries} queries, {run.num_rows} rows, top_k {chosen}")
    print_note(note)


def write_interleaved(
    path: Path, first: str, second: str, top_k: int, n_lists: int, out: Path, store: Path | None
) -> None:
    """Write lists in which the results of two retrievers of the last evaluation take turns."""
    experiment, names = open_evaluations(path, store)
    Selection.of(experiment, (first, second))
    lists = interleaved(EvaluationResult.current(names.root), (first, second), top_k, n_lists)
    write_text(out, "".join(f"{canonical_json(line)}\n" for line in lists))
    print_line(f"{out}: {len(lists)} lists of {first} and {second}, top_k {top_k}")


def _note_on_splits(result: EvaluationResult) -> str | None:
    """Return that the queries of several splits are in; None: there is one."""
    counts = {name: n for name in (DEV, TEST) if (n := len(result.weights(name)))}
    if not counts:
        return None
    parts = " and ".join(f"{n} {name}" for name, n in counts.items())
    return f"the file has {parts} queries; the leaderboard is over test alone (--split test)"


def convert(path: Path, to: str, folder: Path) -> None:
    """Write the documents, queries and qrels of PATH in another format."""
    experiment = load_experiment(path)
    dataset = experiment.dataset
    for line in experiment.unread_files:
        print_note(f"documents: {line}")
    documents, queries = dataset.read_documents(), dataset.read_queries()
    qrels = Read(QRELS.empty(), [])
    if experiment.has_qrels:
        qrels = experiment.read_qrels(documents.table, queries.table)
    lost = write_dataset(Tables(documents.table, queries.table, qrels.table), to, folder.absolute())
    read = {"documents": documents, "queries": queries, "qrels": qrels}
    for name, table in read.items():
        for note in table.notes:
            print_note(f"{name}: {note}")
    for note in lost:
        print_note(f"{to}: {note}")
    counts = ", ".join(f"{name} {table.table.num_rows}" for name, table in read.items())
    print_line(f"{folder}: written from {counts}")
