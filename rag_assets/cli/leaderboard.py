"""``rag-assets leaderboard``: the current evaluation, read and not recomputed."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import Integer, refuse_given, selection_options
from rag_assets.cli.terminal import print_note, print_rows
from rag_assets.errors import DataError, NotEvaluated, UsageError
from rag_assets.evaluation.query_facts import ALL, DEV, TEST
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.selection import Selection
from rag_assets.report.answers import answer_rows, answer_sheets
from rag_assets.report.evaluation_pairs import MetricSource
from rag_assets.report.formats import Row
from rag_assets.report.judged import headline_sheets
from rag_assets.report.latency import latency_rows, latency_sheets
from rag_assets.report.leaderboard import leaderboard_sheets, result_rows
from rag_assets.report.metric_sources import named_source
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sampled import sampled_rows, sampled_sheets
from rag_assets.report.slices import TAG, Slice, slices_of, slices_sheet
from rag_assets.report.terminal_table import sheet_view, sheets_view
from rag_assets.report.view import shown, shown_rows
from rag_assets.store.settings import StoreSettings


@click.command("leaderboard")
@selection_options
@click.option(
    "--by",
    "slice_by",
    metavar="WHAT",
    help="One row for each slice of the queries: by `tag`, "
    "`query.<field>` or `document.<field>` (metadata of the relevant documents).",
)
@click.option(
    "--answers",
    is_flag=True,
    help="Show answerers instead of retrievers.",
)
@click.option(
    "--latency",
    is_flag=True,
    help="Show how fast each retriever is, and what its index cost, instead of the metrics.",
)
@click.option(
    "--budget",
    type=Integer(min=1),
    metavar="TOKENS",
    help="Compare at an equal budget: each query gets as many units as fit into it.",
)
@click.option(
    "--ties",
    is_flag=True,
    help="Show how far each mean could move if units with equal scores were ordered otherwise.",
)
@click.option("--metric", help="With --by: this metric, such as recall@10 or answer_f1.")
@click.option(
    "--split",
    "asked",
    type=click.Choice([DEV, TEST]),
    help="Queries for choosing (dev) or for reporting (test)  [default: test, if there is a split]",
)
def command(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: tuple[int, ...],
    form: str,
    slice_by: str | None,
    budget: int | None,
    ties: bool,
    metric: str | None,
    asked: str | None,
    latency: bool,
    answers: bool,
) -> None:
    """Print the leaderboard of the last evaluation of PATH.

    Example: rag-assets leaderboard data/handbook --format markdown
    """
    _check_alone(latency=latency, answers=answers)
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    selection = Selection.of(experiment, retrievers, top_k)
    if ties and (latency or slice_by or metric or budget is not None):
        raise UsageError("--ties is a table of its own; --latency, --by, --budget do not apply")
    _check_budget(budget, slice_by, top_k)
    result = EvaluationResult.current(settings.store / experiment.name)
    if latency:
        _print_latency(result, experiment, selection, form)
        return
    if answers:
        _print_answers(result, form, asked)
        return
    if metric and not slice_by:
        raise UsageError("--metric belongs to --by; the leaderboard shows all metrics")
    if budget is not None:
        _print_budget(result, selection, form, budget, result.chosen_split(asked))
        return
    if slice_by:
        chosen = named_source(metric, result.primary)
        if top_k:
            raise UsageError(f"--by {slice_by} shows {chosen.metric}; --top-k does not apply to it")
        _print_slices(result, selection, form, slice_by, chosen, result.chosen_split(asked))
        return
    sampled = [] if result.has_metrics or ties or asked else sampled_sheets(result)[:1]
    if sampled:  # without complete labels they are all there is
        rows = sampled_rows(result)
        print_rows(rows, form, lambda: sheets_view(sampled), result.evaluation)
        return
    split = result.chosen_split(asked)
    if ties:
        _print_ties(result, selection, form, split)
    else:
        _print_board(result, experiment, selection, form, split)


def _check_budget(budget: int | None, slice_by: str | None, top_k: tuple[int, ...]) -> None:
    if budget is not None and (slice_by or top_k):
        problem = f"--budget {budget} keeps what fits of the deepest run"
        raise UsageError(f"{problem}; {'--by' if slice_by else '--top-k'} does not apply to it")


def _check_alone(*, latency: bool, answers: bool) -> None:
    """Refuse what does not apply to a table of its own."""
    if latency:
        others = ["slice_by", "metric", "top_k", "budget", "asked", "answers"]
        refuse_given(others, "does not apply to --latency, which is of whole rankings")
    if answers:
        others = ["slice_by", "metric", "top_k", "budget", "retrievers", "ties"]
        refuse_given(others, "does not apply to --answers")


def _print_answers(result: EvaluationResult, form: str, asked: str | None) -> None:
    if not result.answer_metrics:
        raise NotEvaluated(f"the last evaluation of {result.evaluation.experiment} has no answers")
    split = result.chosen_split(asked)
    rows = answer_rows(result, split)
    sheets = [*answer_sheets(result, split), *headline_sheets(result, split)]
    print_rows(rows, form, lambda: sheets_view(sheets), result.evaluation)


def _print_board(
    result: EvaluationResult, experiment: Experiment, selection: Selection, form: str, split: str
) -> None:
    rows = result_rows(result, selection, split)
    if not rows:
        name = result.evaluation.experiment
        raise NotEvaluated(f"the last evaluation of {name} has none of these cells")
    names = experiment.config.display_names
    told = shown_rows(rows, names)
    print_rows(
        told if form == "markdown" else rows,
        form,
        lambda: sheets_view(leaderboard_sheets(shown(result, names), told)),
        result.evaluation,
    )


def _print_latency(
    result: EvaluationResult, experiment: Experiment, selection: Selection, form: str
) -> None:
    rows = latency_rows(result, experiment, selection.retrievers)
    named_rows = shown_rows(rows, experiment.config.display_names)
    sheets = latency_sheets(result.evaluation.experiment, named_rows)
    print_rows(rows, form, lambda: sheets_view(sheets), result.evaluation)


def _print_budget(
    result: EvaluationResult, selection: Selection, form: str, budget: int, split: str
) -> None:
    from rag_assets.report.recomputed_boards import budget_rows, budget_sheet

    rows = budget_rows(result, selection.retrievers, budget, split)
    named_rows = shown_rows(rows, result.evaluation.display_names)
    print_note(result.tuning_note(selection.retrievers, split))
    print_rows(rows, form, lambda: sheet_view(budget_sheet(result, named_rows)), result.evaluation)


def _print_ties(result: EvaluationResult, selection: Selection, form: str, split: str) -> None:
    from rag_assets.report.recomputed_boards import tie_rows, tie_sheet

    cutoffs = selection.top_k
    top_k = result.primary.cutoff if result.primary.cutoff in cutoffs else max(cutoffs)
    rows = tie_rows(result, selection.retrievers, top_k, split)
    print_note(result.tuning_note(selection.retrievers, split))
    named_rows = shown_rows(rows, result.evaluation.display_names)
    sheet = tie_sheet(result.evaluation.experiment, named_rows, split)
    print_rows(rows, form, lambda: sheet_view(sheet), result.evaluation)


def _print_slices(
    result: EvaluationResult,
    selection: Selection,
    form: str,
    by: str,
    source: MetricSource,
    split: str,
) -> None:
    name = result.evaluation.experiment
    whose = list(source.cells(result)) if source.is_of_answers else selection.retrievers
    if not set(source.cells_with(result)) & set(whose):
        raise NotEvaluated(f"the last evaluation of {name} has no cell of {source.metric}")
    slices = slices_of(result, source, whose, by, split)
    if not slices:
        what = "a tag" if by == TAG else f"a value of {by}"
        raise DataError(f"no answerable query of {name} has {what}")
    if not source.is_of_answers:
        print_note(result.tuning_note(selection.retrievers, split))
    metric = str(source.metric)
    rows = [source.named(row) for one in slices for row in _rows(one, metric, by, split)]
    sheet = slices_sheet(slices, metric, by, split, names=result.evaluation.display_names)
    print_rows(rows, form, lambda: sheet_view(sheet), result.evaluation)


def _rows(one: Slice, metric: str, by: str, split: str) -> list[Row]:
    where: Row = {} if split == ALL else {"split": split}
    return [
        {by: one.value, **where, "n_queries": one.n_queries, "retriever": name, metric: value}
        for name, value in one.means.items()
    ]
