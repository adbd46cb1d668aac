"""``rag-assets compare``: two retrievers on the same queries, and how sure the difference is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rag_assets.cli.options import (
    Integer,
    format_option,
    path_argument,
    refuse_given,
    store_option,
)
from rag_assets.cli.terminal import messages, output, print_data, print_note, print_rows
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.selection import check_cell_names
from rag_assets.report.comparison_views import (
    compared_sheet,
    pair_sheets,
)
from rag_assets.report.comparisons import Compared, most_changed
from rag_assets.report.evaluation_pairs import EstimatedSource
from rag_assets.report.formats import Row, as_json, dated, formatted
from rag_assets.report.metric_sources import chosen_source
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import sheet_view, sheets_view
from rag_assets.report.view import shown
from rag_assets.statistics.comparisons import Pairs, all_pairs
from rag_assets.store.settings import StoreSettings


@click.command("compare")
@path_argument
@click.argument("retrievers", nargs=-1, metavar="[A B]")
@store_option
@click.option("--metric", help="Such as recall@10 or answer_f1  [default: the primary metric]")
@click.option("--split", help="The queries of this split  [default: test where there is one]")
@click.option(
    "--show",
    type=Integer(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="With A and B: the N queries that B wins by most, and the N that it loses by most.",
)
@format_option
def command(
    path: Path,
    retrievers: tuple[str, ...],
    store: Path | None,
    metric: str | None,
    split: str | None,
    show: int,
    form: str,
) -> None:
    """Compare retriever B with A on the same queries, or all pairs.

    It reads the last evaluation of PATH and searches nothing again. The table and json also show
    the queries that moved most. Name answerers with their cut-off, such as plain@5.

    Example: rag-assets compare data/handbook --format markdown
    """
    _check_named(retrievers)
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    check_cell_names(experiment, retrievers)
    root = settings.store / experiment.name
    result = EvaluationResult.current(root)
    chosen = chosen_source(result, metric, retrievers)
    if isinstance(chosen, EstimatedSource):
        rows = chosen.differences(result, split, retrievers)
        title = f"{experiment.name}: {chosen.metric}"
        print_rows(
            rows,
            form,
            lambda: sheet_view(chosen.differences_sheet(rows, title)),
            result.evaluation,
        )
        return
    names = experiment.config.display_names
    compared = Compared.of(result, chosen, split)
    if form in ("table", "markdown"):
        compared = Compared.of(shown(result, names), chosen, split)
        retrievers = tuple(names.get(name, name) for name in retrievers)
    if retrievers:
        _print_pair(compared, retrievers[0], retrievers[1], show, form)
    else:
        _print_all(compared, form)
    if not chosen.is_of_answers:
        told = compared.result
        print_note(told.tuning_note(retrievers or list(compared.cells), compared.split))
    _print_note(compared)


def _check_named(retrievers: Sequence[str]) -> None:
    if not retrievers:
        refuse_given(["show"], "belongs to two retrievers or answerers; name them")
    if len(retrievers) not in (0, 2):
        raise UsageError(f"compare takes two retrievers or none, not {len(retrievers)}")
    if retrievers and retrievers[0] == retrievers[1]:
        raise UsageError(f"'{retrievers[0]}' is compared with itself; give two retrievers")


def _rows(compared: Compared, pairs: Pairs) -> list[Row]:
    rows = compared.rows(pairs)
    if not rows and len(pairs) == 1:
        raise NotEvaluated(f"no query of split {compared.split} is answerable")
    if not rows:
        name = compared.result.evaluation.experiment
        problem = f"has fewer than two {compared.source.subject}s with a cell of {compared.metric}"
        raise NotEvaluated(f"the last evaluation of {name} {problem}")
    return rows


def _print_all(compared: Compared, form: str) -> None:
    rows = _rows(compared, all_pairs(list(compared.cells)))
    own = [compared.source.named(row) for row in rows]
    print_rows(
        own, form, lambda: sheet_view(compared_sheet(compared, rows)), compared.result.evaluation
    )


def _print_pair(compared: Compared, a: str, b: str, show: int, form: str) -> None:
    row = _rows(compared, [(a, b)])[0]
    if form == "table":
        output().print(sheets_view(pair_sheets(compared, row, most_changed(compared, a, b, show))))
        return
    row = {**row, **_bounds(compared, a, b), "verdict": compared.verdict(row)}
    row = compared.source.named(row)
    evaluation = compared.result.evaluation
    (row,) = dated([row], form, evaluation.evaluation_id, evaluation.started)
    if form != "json":
        print_data(formatted([row], form))
        return
    row["most_won"], row["most_lost"] = most_changed(compared, a, b, show)
    print_data(as_json(row))


def _bounds(compared: Compared, a: str, b: str) -> Row:
    """Return the intervals of both means."""
    intervals = compared.mean_intervals(a, b)
    return {
        f"{bound}_{side}": intervals[name][bound] if name in intervals else None
        for side, name in (("a", a), ("b", b))
        for bound in ("low", "high")
    }


def _print_note(compared: Compared) -> None:
    """Say on stderr that queries may hang together, where nothing was said about it."""
    for text in compared.notes:
        messages().print(text)
