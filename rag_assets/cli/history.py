"""``rag-assets history``: how a metric went from evaluation to evaluation, and what changed."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import format_option, path_argument, retriever_option, store_option
from rag_assets.cli.terminal import output
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.history import History
from rag_assets.reporting.formats import formatted
from rag_assets.reporting.history_rows import flat_history_rows, history_rows
from rag_assets.store.remote.working_copy import shown_store
from rag_assets.store.settings import StoreSettings


@click.command("history")
@path_argument
@store_option
@retriever_option
@click.option("--metric", metavar="METRIC", help="Such as recall@10  [default: the primary metric]")
@click.option("--split", help="The queries of this split  [default: test where there is one]")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="So many of the newest evaluations.",
)
@format_option
def command(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    last: int,
    form: str,
) -> None:
    """Print a metric over the evaluations of PATH, with what changed between them.

    Every evaluation is there, also one in which nothing changed. The history is kept when old
    artifacts are cleaned away.

    Example: rag-assets history data/handbook --metric recall@10 --retriever bm25 --last 50
    """
    experiment = load_experiment(path)
    settings = StoreSettings.resolve(store)
    history = History(settings.store / experiment.name, settings.locks)
    evaluations = history.evaluations(last + 1)
    if not evaluations:
        raise NotEvaluated(
            f"{experiment.name} has no evaluation in {shown_store(settings.store)} yet"
        )
    asked = _metric(metric, str(evaluations[-1]["primary_metric"]))
    since = str(evaluations[0]["evaluation_id"])
    values = history.metric(asked.column, asked.cutoff or 0, since=since)
    _check(asked, retrievers, [str(row["retriever"]) for row in values])
    chosen = [row for row in values if not retrievers or row["retriever"] in retrievers]
    rows = history_rows(evaluations, chosen, split)
    shown = {str(row["evaluation_id"]) for row in evaluations[-last:]}
    rows = [row for row in rows if row["evaluation_id"] in shown]
    if form == "table":
        from rag_assets.reporting.history_view import history_view

        output().print(history_view(rows, str(asked)))
    else:
        click.echo(formatted(rows if form == "json" else flat_history_rows(rows), form), nl=False)


def _metric(name: str | None, primary: str) -> Metric:
    default = parse_metric(primary)
    metric = parse_metric(name) if name is not None else default
    return metric if metric.cutoff is not None else metric._replace(cutoff=default.cutoff)


def _check(metric: Metric, wanted: tuple[str, ...], found: list[str]) -> None:
    if not found:
        raise NotEvaluated(f"none of these evaluations has a cell of {metric}")
    for name in wanted:
        if name not in found:
            raise UsageError(f"unknown retriever {allowed_names(name, dict.fromkeys(found))}")
