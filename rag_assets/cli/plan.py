"""``rag-assets plan``: what an evaluation would do, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from rag_assets.api import plan
from rag_assets.checks.retriever_warnings import narrow_search_warnings, prompt_warnings
from rag_assets.cli.options import selection_options
from rag_assets.cli.progress_bars import work_board
from rag_assets.cli.terminal import messages, print_rows
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.experiment.hosts import circle_warnings, clients, host_notes
from rag_assets.report.plan import ACTION_STYLES, flat_plan_rows, plan_rows, plan_sheet
from rag_assets.report.terminal_table import sheet_view
from rag_assets.sources.labelled_folder import QUERIES_FILE, LabelledFolder, examples_left


@click.command("plan")
@selection_options
@click.option(
    "--all", "each", is_flag=True, help="Print a line for every partition, not for every asset."
)
def command(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: tuple[int, ...],
    form: str,
    each: bool,
) -> None:
    """Say what `evaluate` would compute, and why, without computing anything.

    Each partition is one of three: `compute`, `reuse` (the stored result is current) or `check`
    (computed only if its inputs change). `--format json` lists asset, partition, action and
    reasons.

    Example: rag-assets plan data/handbook --all
    """
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
    print_rows(rows, form, lambda: sheet_view(plan_sheet(steps, each=each), ACTION_STYLES))


def _examples(experiment: Experiment) -> Iterator[str]:
    """Yield a line where questions are still those that `init` wrote."""
    dataset = experiment.dataset
    if isinstance(dataset, LabelledFolder) and (n := examples_left(dataset.root / QUERIES_FILE)):
        questions = "example question" if n == 1 else "example questions"
        yield f"{QUERIES_FILE} still has {n} {questions} of `init`; `evaluate` asks for your own"
