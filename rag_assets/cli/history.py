"""How a metric went from evaluation to evaluation, and what changed."""

from __future__ import annotations

from pathlib import Path

from rag_assets.cli.options import cell_names
from rag_assets.cli.terminal import print_rows
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.history import History
from rag_assets.report.history import MetricHistory, flat_history_rows
from rag_assets.store.settings import StoreSettings


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
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    history = History(settings.store / experiment.name, settings.locks)
    whose = cell_names(retrievers, answerers)
    metric_history = MetricHistory.of(history, metric, whose, split, last)
    rows = metric_history.rows
    shown = rows if form == "json" else flat_history_rows(rows)
    shown = [metric_history.source.named(row) for row in shown]
    sheet = metric_history.sheet(rows)
    print_rows(shown, form, lambda: [sheet])
