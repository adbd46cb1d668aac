"""``rag-assets leaderboard``: the current evaluation, read and not recomputed."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import selection_options
from rag_assets.cli.terminal import output
from rag_assets.errors import DataError, NotEvaluated, UsageError
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.selection import Selection
from rag_assets.reporting.formats import formatted
from rag_assets.reporting.result import EvaluationResult
from rag_assets.reporting.rows import Row, leaderboard_rows
from rag_assets.reporting.slices import TagSlice
from rag_assets.store.settings import StoreSettings


@click.command("leaderboard")
@selection_options
@click.option("--by", "slice_by", type=click.Choice(["tag"]), help="One row a query tag.")
def command(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: tuple[int, ...],
    form: str,
    slice_by: str | None,
) -> None:
    """Print the leaderboard of the last evaluation of PATH.

    Example: rag-assets leaderboard data/handbook --format markdown
    """
    experiment = load_experiment(path)
    selection = Selection.of(experiment, retrievers, top_k)
    settings = StoreSettings.resolve(store)
    result = EvaluationResult.current(settings.store / experiment.name)
    if slice_by:
        if top_k:
            raise UsageError(f"--by tag shows {result.primary}; --top-k does not apply to it")
        _print_slices(result, selection, form)
        return
    rows = leaderboard_rows(result.leaderboard, selection)
    if not rows:
        raise NotEvaluated(f"the last evaluation of {experiment.name} has none of these cells")
    if form != "table":
        click.echo(formatted(rows, form), nl=False)
    else:
        from rag_assets.reporting.terminal import leaderboard_view

        output().print(leaderboard_view(result, rows))


def _print_slices(result: EvaluationResult, selection: Selection, form: str) -> None:
    from rag_assets.reporting.terminal import slices_view

    name = result.evaluation.experiment
    if not result.query_metrics(result.primary.cutoff or 0).keys() & set(selection.retrievers):
        raise NotEvaluated(f"the last evaluation of {name} has no cell of {result.primary}")
    slices = result.slices(selection.retrievers)
    if not slices:
        raise DataError(f"no answerable query of {name} has a tag")
    if form == "table":
        output().print(slices_view(slices, str(result.primary)))
        return
    rows = [row for one in slices for row in _rows(one, str(result.primary))]
    click.echo(formatted(rows, form), nl=False)


def _rows(one: TagSlice, metric: str) -> list[Row]:
    return [
        {"tag": one.tag, "n_queries": one.n_queries, "retriever": name, metric: value}
        for name, value in one.means.items()
    ]
