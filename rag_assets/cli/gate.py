"""Pass, fail or cannot tell, for a CI system; and the anchor that it compares with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import click

from rag_assets.cli.options import (
    cell_names,
    refuse_given,
)
from rag_assets.cli.terminal import output, print_data, print_note, print_rows
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.pipeline.evaluation_names import (
    EvaluationNames,
    open_experiment,
    open_to_read,
)
from rag_assets.pipeline.evaluations import fetch_experiments
from rag_assets.report.formats import as_json, formatted
from rag_assets.report.gate import CANNOT_TELL, FAIL, PASS, Answer, Rules, gate
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import Sheet
from rag_assets.statistics.paired_differences import fewest_falls
from rag_assets.store.atomic import write_text
from rag_assets.store.settings import StoreSettings

EXIT_CODES: dict[Answer, int] = {PASS: 0, FAIL: 1, CANNOT_TELL: 4}


def print_gate(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    answerers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    against: str,
    max_drop: float,
    alpha: float,
    unknown: Literal["pass", "fail"] | None,
    intersection: bool,
    junit_file: Path | None,
    form: str,
) -> None:
    """Pass or fail the last evaluation of PATH, or say that nobody can tell."""
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    try:
        outcome = gate(
            EvaluationResult.current(settings.store / experiment.name),
            EvaluationNames(settings, experiment.name),
            against,
            Rules(max_drop, alpha),
            metric=metric,
            split=split,
            retrievers=cell_names(retrievers, answerers),
            intersection=intersection,
        )
    except NotEvaluated as error:
        raise UsageError(str(error)) from error  # not to be mistaken for a regression
    if junit_file is not None:
        from rag_assets.report.gate_views import junit

        write_text(junit_file, junit(outcome, cannot_tell_fails=unknown == FAIL))
    if form == "json":
        print_data(as_json(outcome.as_json()))
    else:
        from rag_assets.report.gate_views import gate_csv_rows, gate_markdown, gate_view

        if form == "table":
            output().print(gate_view(outcome))
        elif form == "csv":
            print_data(formatted(gate_csv_rows(outcome), form))
        else:
            print_data(gate_markdown(outcome))
    if any(check.causes is not None and check.causes.newcomers for check in outcome.checks):
        pool = f"rag-assets pool {shlex.quote(str(path))} --out sheet.csv"
        print_note(f"the pages named as unjudged may be good answers; to grade them: {pool}")
    answer = unknown if outcome.answer == CANNOT_TELL and unknown else outcome.answer
    click.get_current_context().exit(EXIT_CODES[answer])


def pin_anchor(path: Path, evaluation: str, store: Path | None, show: bool, form: str) -> None:
    """Pin an evaluation, and say how many questions must fall before the gate can fail."""
    if show:
        refuse_given(["evaluation"], "is what would be pinned; --show changes nothing")
    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings)
    fetch_experiments(settings, experiment.name)
    names = EvaluationNames(settings, experiment.name)
    pinned = names.find("anchor") if show else names.pin(evaluation)
    row = {"experiment": experiment.name, "anchor": pinned.evaluation_id, "started": pinned.started}
    said = f"{experiment.name}: anchor is {pinned.evaluation_id}, of {pinned.started}"
    print_rows([row], form, lambda: [Sheet("", (), (), notes=[said])])
    if not show:
        print_note(_sensitivity(EvaluationResult(settings.store / experiment.name, pinned)))


def _sensitivity(result: EvaluationResult) -> str:
    """Return how many questions must fall before the gate can fail."""
    fewest = fewest_falls(Rules.alpha)
    text = f"the gate can fail once {fewest} questions fall and none rises"
    if not result.has_metrics:
        return text
    n = max((row["n_queries"] for row in result.leaderboard.to_pylist()), default=0)
    return text if n >= fewest else f"{text}; there are {n}, so label more"
