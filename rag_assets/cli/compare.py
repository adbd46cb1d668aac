"""Two retrievers on the same queries, and how sure the difference is."""

from __future__ import annotations

from pathlib import Path

from rag_assets.cli.options import (
    refuse_given,
)
from rag_assets.cli.terminal import messages, print_data, print_note, print_rows
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.selection import check_cell_names
from rag_assets.report.comparison_views import (
    Comparison,
    check_pair,
    compared_sheet,
    pair_sheets,
)
from rag_assets.report.comparisons import Compared, most_changed
from rag_assets.report.evaluation_pairs import EstimatedSource
from rag_assets.report.formats import Row, as_json, dated, formatted
from rag_assets.report.metric_sources import chosen_source
from rag_assets.report.result import EvaluationResult
from rag_assets.store.settings import StoreSettings


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
        refuse_given(["show"], "belongs to two retrievers or answerers; name them")
    check_pair(retrievers)
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    check_cell_names(experiment, retrievers)
    result = EvaluationResult.current(settings.store / experiment.name)
    chosen = chosen_source(result, metric, retrievers)
    if isinstance(chosen, EstimatedSource):
        rows = chosen.differences(result, split, retrievers)
        sheet = chosen.differences_sheet(rows, f"{experiment.name}: {chosen.metric}")
        print_rows(rows, form, lambda: [sheet], result.evaluation)
        return
    comparison = Comparison.of(result, retrievers, metric, split)
    compared = comparison.compared
    if retrievers:
        _print_pair(comparison, retrievers[0], retrievers[1], show, form)
    else:
        pairs = [chosen.named(row) for row in comparison.rows]
        board = compared_sheet(compared, comparison.rows)
        print_rows(pairs, form, lambda: [board], result.evaluation)
    if not chosen.is_of_answers:
        print_note(result.tuning_note(retrievers or list(compared.cells), compared.split))
    for text in compared.notes:  # that queries may hang together, where nothing was said about it
        messages().print(text)


def _print_pair(comparison: Comparison, a: str, b: str, show: int, form: str) -> None:
    compared, (row,) = comparison.compared, comparison.rows
    evaluation = compared.result.evaluation
    if form in ("table", "latex"):
        changed = most_changed(compared, a, b, show)
        board = [compared_sheet(compared, [row])]
        print_rows(
            [], form, lambda: board if form == "latex" else pair_sheets(compared, row, changed)
        )
        return
    row = {**row, **_bounds(compared, a, b), "verdict": compared.verdict(row)}
    (row,) = dated([compared.source.named(row)], form, evaluation.evaluation_id, evaluation.started)
    if form == "json":
        won, lost = most_changed(compared, a, b, show)
        print_data(as_json({**row, "most_won": won, "most_lost": lost}))
    else:
        print_data(formatted([row], form))


def _bounds(compared: Compared, a: str, b: str) -> Row:
    """Return the intervals of both means."""
    intervals = compared.mean_intervals(a, b)
    return {
        f"{bound}_{side}": intervals[name][bound] if name in intervals else None
        for side, name in (("a", a), ("b", b))
        for bound in ("low", "high")
    }
