"""``rag-assets attribution``: where evidence was found or lost in the last evaluation."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import (
    format_option,
    path_argument,
    refuse_given,
    retriever_option,
    store_option,
)
from rag_assets.cli.terminal import output, print_data, print_rows
from rag_assets.errors import DataError, NotEvaluated, UsageError
from rag_assets.evaluation.query_facts import DEV, TEST
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.selection import Selection
from rag_assets.report.attribution import (
    attribution_rows,
    attribution_sheet,
    checked_rows,
    lost_rows,
    lost_sheets,
    waterfall_sheet,
)
from rag_assets.report.formats import dated, formatted
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import sheet_view, sheets_view
from rag_assets.report.view import shown_rows
from rag_assets.store.settings import StoreSettings


@click.command("attribution")
@path_argument
@store_option
@retriever_option
@click.option(
    "--by",
    "slice_by",
    metavar="WHAT",
    help="One row for each slice of the queries and each retriever: by `tag`, `query.<field>` or "
    "`document.<field>`.",
)
@click.option(
    "--split",
    type=click.Choice([DEV, TEST]),
    help="Count the queries of this split  [default: test, where there is a split]",
)
@click.option(
    "--queries", is_flag=True, help="List the evidence that was lost, with the text of each query."
)
@click.option(
    "--answers",
    is_flag=True,
    help="Print what became of each question, from the corpus to its answer.",
)
@format_option
def command(
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    slice_by: str | None,
    split: str | None,
    queries: bool,
    answers: bool,
    form: str,
) -> None:
    """Print at which stage each retriever found or lost the evidence.

    It reads the last evaluation of PATH, at the cut-off of its primary metric. Evidence is found;
    ranked, but cut at k; lost by the fusion or reranker; below the candidates; in no chunk; or not
    in the corpus. `ceiling` is the recall of the candidates that a fusion or reranker reads. With
    --answers, each question falls into one class, and the classes sum to 100 %.

    Example: rag-assets attribution data/handbook --queries
    """
    if answers:
        others = ["retrievers", "slice_by", "queries"]
        refuse_given(others, "does not apply to --answers, which is of all answerers and questions")
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    selection = Selection.of(experiment, retrievers)
    if queries and slice_by:
        raise UsageError("--queries lists evidences one by one; --by does not apply to it")
    result = EvaluationResult.current(settings.store / experiment.name)
    if answers:
        found = checked_rows(result, result.chosen_split(split))
        sheet = waterfall_sheet(f"{experiment.name}: from corpus to answer", found)
        print_rows(found, form, lambda: sheet_view(sheet), result.evaluation)
        return
    rows = attribution_rows(result, selection.retrievers, slice_by, split)
    if not rows and slice_by:
        raise DataError(
            f"no query of {experiment.name} with an evidence is in a slice by {slice_by}"
        )
    if not rows:
        raise NotEvaluated(f"the last evaluation of {experiment.name} has no evidence to look for")
    lost = lost_rows(result, selection.retrievers, split) if queries else []
    if form != "table":
        evaluation = result.evaluation
        own = lost if queries else rows
        own = dated(own, form, evaluation.evaluation_id, evaluation.started)
        print_data(formatted(own, form))
        return
    names = experiment.config.display_names
    sheets = [attribution_sheet(experiment.name, shown_rows(rows, names), slice_by)]
    output().print(sheets_view([*sheets, *lost_sheets(shown_rows(lost, names))]))
