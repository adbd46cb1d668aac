"""Comparisons: of retrievers or answerers, of two evaluations, and as a gate for a CI system."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from rag_assets.analysis.comparability import Comparability, comparability
from rag_assets.analysis.comparisons import Comparison, check_pair
from rag_assets.analysis.diff import (
    answer_changes,
    answer_changes_sheet,
    changes_between,
    changes_sheet,
    means_sheet,
)
from rag_assets.analysis.evaluation_pairs import EstimatedSource, EvaluationPair, MetricSource
from rag_assets.analysis.gate import CANNOT_TELL, FAIL, PASS, Answer, Rules
from rag_assets.analysis.metric_sources import chosen_source
from rag_assets.analysis.pair_details import most_changed, pair_sheets
from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.result_files import compare_files
from rag_assets.api import gate
from rag_assets.cli.options import cell_names, refuse_given
from rag_assets.cli.terminal import output, print_data, print_message, print_note, print_rows
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.pipeline.evaluation_names import open_evaluations
from rag_assets.pipeline.selection import check_cell_names
from rag_assets.sheets.formats import Row, as_json, dated, formatted
from rag_assets.sheets.sheet import Sheet
from rag_assets.sheets.terminal_table import sheets_view
from rag_assets.statistics.paired_differences import fewest_falls

NOT_COMPARABLE = 1

_STYLES: dict[str, str] = {PASS: "green", FAIL: "bold red", CANNOT_TELL: "bold yellow"}
EXIT_CODES: dict[Answer, int] = {PASS: 0, FAIL: 1, CANNOT_TELL: 4}
"""Of `gate`."""


def print_comparison(
    path: Path,
    retrievers: tuple[str, ...],
    store: Path | None,
    metric: str | None,
    split: str | None,
    show: int,
    form: str,
) -> None:
    """Compare retriever B with A on the same queries, or all pairs."""
    if not retrievers:
        refuse_given(["show"], "needs two retrievers or answerers; name them")
    if len(retrievers) == 1 and path.is_file() and Path(retrievers[0]).is_file():
        row, sheet = compare_files(path, Path(retrievers[0]), metric)
        print_rows([row], form, lambda: [sheet])
        return
    check_pair(retrievers)
    experiment, names = open_evaluations(path, store)
    result = EvaluationResult.current(names.root, split)
    check_cell_names(experiment, [n for n in retrievers if n not in result.run_retrievers])
    chosen = chosen_source(result, metric, retrievers)
    if isinstance(chosen, EstimatedSource):
        rows = chosen.differences(result, retrievers)
        if not rows:
            raise result.lacks(f"has fewer than two {chosen.subject}s with {chosen.metric}")
        sheet = chosen.differences_sheet(rows, f"{experiment.name}: {chosen.metric}")
        print_rows(rows, form, lambda: [sheet], result.evaluation)
        return
    compared = Comparison.of(result, retrievers, metric)
    if retrievers:
        _print_pair(compared, show, form)
    else:
        pairs = [chosen.with_subject(row) for row in compared.rows]
        print_rows(pairs, form, lambda: [compared.sheet()], result.evaluation)
    if not chosen.is_of_answers:
        print_note(result.tuning_note(retrievers or list(compared.new_cells)))
    for text in compared.notes:  # that queries may hang together, where nothing was said about it
        print_message(text)


def _print_pair(compared: Comparison, show: int, form: str) -> None:
    intervals, evaluation = compared.mean_intervals, compared.new.evaluation
    bounds = {
        f"{bound}_{side}": intervals[name][bound] if name in intervals else None
        for side, name in zip("ab", compared.names, strict=True)
        for bound in ("low", "high")
    }
    row = {**compared.rows[0], **bounds, "verdict": compared.verdicts[0]}
    rows = [compared.source.with_subject(row)]
    if form == "json":
        won, lost = most_changed(compared, show)
        (row,) = dated(rows, form, evaluation.evaluation_id, evaluation.started)
        print_data(as_json({**row, "most_won": won, "most_lost": lost}))
    elif form == "table":
        output().print(sheets_view(pair_sheets(compared, most_changed(compared, show))))
    else:
        print_rows(rows, form, lambda: [compared.sheet()], evaluation)


def print_diff(
    path: Path,
    eval_a: str,
    eval_b: str,
    store: Path | None,
    retrievers: tuple[str, ...],
    answerers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    intersection: bool,
    form: str,
) -> None:
    """Say what differs between two evaluations, and compare their metrics."""
    _, names = open_evaluations(path, store)
    a, b = (EvaluationResult(names.root, names.find(name), split) for name in (eval_a, eval_b))
    whose = cell_names(retrievers, answerers)
    shared: list[Comparability] = []
    means: list[tuple[EvaluationPair, list[Row]]] = []
    for source in _metrics(a, b, metric, whose):
        shared.append(comparability(a, b, answers=source.is_of_answers))
        if intersection or not shared[-1].reasons:
            queries = shared[-1].chosen(intersection=intersection)
            pair = EvaluationPair.between(a, b, source, queries)
            means.append((pair, pair.changes(whose)))
    has_answers = bool(a.answer_metrics and b.answer_metrics) and not retrievers
    answers = answer_changes(a, b, answerers) if has_answers else None
    changes = changes_between(a, b)
    mean_sheets = [means_sheet(pair, rows, whose) for pair, rows in means]
    tables = [(p.source, [p.source.with_subject(row) for row in rows]) for p, rows in means]
    if form == "json":
        reasons = dict.fromkeys(reason for part in shared for reason in part.reasons)
        content = {
            "a": a.evaluation.evaluation_id,
            "b": b.evaluation.evaluation_id,
            "changes": [asdict(change) for change in changes],
            "not_comparable": [asdict(reason) for reason in reasons],
            "n_shared_queries": len(shared[0].shared) if shared else 0,
            "metrics": [row for of, rows in tables if not of.is_of_answers for row in rows],
            "answer_metrics": [row for of, rows in tables if of.is_of_answers for row in rows],
            "answers": answers or [],
        }
        print_data(as_json(content))
    elif form == "table":
        sheets = [changes_sheet(a.evaluation, b.evaluation, changes)]
        sheets += mean_sheets
        if answers is not None:
            sheets.append(answer_changes_sheet(answers))
        output().print(sheets_view(sheets))
    else:
        reasons_of = [{"what": r.what, "old": r.old, "new": r.new} for r in changes]
        of_means = [rows for _, rows in tables if rows]
        print_data(formatted((of_means or [[]])[0] if form == "csv" else reasons_of, form))
        for rows in [*of_means, *([answers] if answers else [])] if form == "markdown" else []:
            print_data(f"\n{formatted(rows, form)}")
    refusals = [part.refusal for part in shared if part.reasons and not intersection]
    notes = [note for sheet in mean_sheets for note in sheet.notes if form != "table"]
    for text in dict.fromkeys([*notes, *refusals]):
        print_note(text)
    if refusals:
        click.get_current_context().exit(NOT_COMPARABLE)


def _metrics(
    a: EvaluationResult, b: EvaluationResult, metric: str | None, whose: Sequence[str]
) -> Iterator[MetricSource]:
    """Yield the metric that is asked for; else the primary one, and the headline of answers."""
    if metric is not None or whose:
        chosen = chosen_source(b, metric, whose)
        chosen.check_single()
        if chosen.is_of_answers or (a.has_metrics and b.has_metrics):
            yield chosen
        return
    if a.has_metrics and b.has_metrics:
        yield chosen_source(b)
    if a.answer_metrics and b.answer_metrics:
        yield chosen_source(b, None, tuple(b.answer_metrics))


def print_gate(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    answerers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    against: str | None,
    at_least: tuple[tuple[str, float], ...],
    at_most: tuple[tuple[str, float], ...],
    bound: bool,
    max_drop: float,
    alpha: float,
    unknown: Literal["pass", "fail"] | None,
    intersection: bool,
    form: str,
) -> None:
    """Pass or fail the last evaluation of PATH, or say that nobody can tell."""
    floors = [
        {"metric": name, side: limit, "bound": end if bound else "value"}
        for side, end, limits in (("at_least", "lower", at_least), ("at_most", "upper", at_most))
        for name, limit in limits
    ]
    if not floors:
        refuse_given(["bound"], "belongs to --at-least and --at-most")
    if against is None:
        compared = ["metric", "max_drop", "alpha", "intersection", "unknown"]
        refuse_given(compared, "belongs to --against")
    try:
        outcome = gate(
            path,
            against,
            store=store,
            max_drop=max_drop,
            alpha=alpha,
            metric=metric,
            split=split,
            retrievers=cell_names(retrievers, answerers),
            intersection=intersection,
            floors=floors,
        )
    except NotEvaluated as error:
        raise UsageError(str(error)) from error  # not to be mistaken for a regression
    if form == "json":
        print_data(as_json(outcome.as_json()))
    elif form == "markdown":
        print_data(outcome.markdown())
    else:
        sheets = outcome.sheets()
        title = {} if outcome.passed else {sheets[0].title: _STYLES[outcome.answer]}
        print_rows(outcome.rows(), form, lambda: sheets, styles={**_STYLES, **title})
    if any(check.causes is not None and check.causes.newcomers for check in outcome.checks):
        pool = f"rag-assets pool {shlex.quote(str(path))} --out sheet.csv"
        print_note(f"the unjudged pages named above may be good answers. To grade them: {pool}")
    answer = unknown if outcome.answer == CANNOT_TELL and unknown else outcome.answer
    click.get_current_context().exit(EXIT_CODES[answer])


def pin_anchor(path: Path, evaluation: str, store: Path | None, show: bool, form: str) -> None:
    """Pin an evaluation, and say how many questions must get worse before the gate can fail."""
    if show:
        refuse_given(["evaluation"], "cannot be combined with --show, which pins nothing")
    experiment, names = open_evaluations(path, store)
    pinned = names.find("anchor") if show else names.pin(evaluation)
    row = {"experiment": experiment.name, "anchor": pinned.evaluation_id, "started": pinned.started}
    text = f"{experiment.name}: anchor is {pinned.evaluation_id}, of {pinned.started}"
    print_rows([row], form, lambda: [Sheet("", (), (), notes=[text])])
    if not show:
        print_note(_sensitivity(EvaluationResult(names.root, pinned)))


def _sensitivity(result: EvaluationResult) -> str:
    """Return how many questions must get worse before the gate can fail."""
    fewest = fewest_falls(Rules.alpha)
    text = f"the gate can fail once {fewest} questions fall and none rises"
    if not result.has_metrics:
        return text
    n = max((row["n_queries"] for row in result.leaderboard.to_pylist()), default=0)
    return text if n >= fewest else f"{text}; there are {n}, so label more"
