"""``rag-assets anchor``: pin an evaluation that gates compare with."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from rag_assets.cli.options import format_option, path_argument, refuse_given, store_option
from rag_assets.cli.terminal import print_note, print_rows
from rag_assets.pipeline.evaluation_names import LATEST, EvaluationNames, open_experiment
from rag_assets.pipeline.evaluations import fetch_experiments
from rag_assets.report.gate import Rules
from rag_assets.report.result import EvaluationResult
from rag_assets.statistics.paired_differences import fewest_falls
from rag_assets.store.settings import StoreSettings


@click.command("anchor")
@path_argument
@click.argument("evaluation", default=LATEST)
@store_option
@click.option("--show", is_flag=True, help="Print which evaluation is pinned, and change nothing.")
@format_option
def command(path: Path, evaluation: str, store: Path | None, show: bool, form: str) -> None:
    """Pin EVALUATION of PATH, or the last one, as the anchor that `gate` and `diff` compare with.

    The evaluation must be complete. `clean` never removes it. Call it again to pin another one.

    Example: rag-assets anchor data/handbook latest
    """
    if show:
        refuse_given(["evaluation"], "is what would be pinned; --show changes nothing")
    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings)
    fetch_experiments(settings, experiment.name)
    names = EvaluationNames(settings, experiment.name)
    pinned = names.find("anchor") if show else names.pin(evaluation)
    row = {
        "experiment": experiment.name,
        "anchor": pinned.evaluation_id,
        "started": pinned.started,
    }
    said = f"{experiment.name}: anchor is {pinned.evaluation_id}, of {pinned.started}"
    print_rows([row], form, lambda: Text(said))
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
