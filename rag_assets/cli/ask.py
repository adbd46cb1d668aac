"""``rag-assets ask``: what each retriever finds for one question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Group

from rag_assets.cli.options import (
    Integer,
    format_option,
    path_argument,
    retriever_option,
    store_option,
)
from rag_assets.cli.progress_bars import progress_bar, work_board
from rag_assets.cli.terminal import messages, output, print_data
from rag_assets.experiment.hosts import clients, host_notes
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.formats import formatted
from rag_assets.report.question_hits import QuestionHits
from rag_assets.report.terminal_table import sheet_view
from rag_assets.retrieval.ask import ask
from rag_assets.sources.formats import question_like
from rag_assets.store.settings import StoreSettings


@click.command("ask")
@path_argument
@click.argument("question")
@store_option
@retriever_option
@click.option(
    "--top-k",
    type=Integer(min=1),
    default=5,
    show_default=True,
    metavar="K",
    help="Show this many passages of each retriever.",
)
@format_option
def command(
    path: Path,
    question: str,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: int,
    form: str,
) -> None:
    """Show what each retriever of PATH finds for one question.

    You need no queries.jsonl and no labels. Cheap retrievers come first, and each is printed as
    soon as it is ready. Words of the question are marked. The table at the end says which retriever
    found which passage, and at which rank. `evaluate` uses the same indexes.

    Example: rag-assets ask data/handbook "how do I return a part"
    """
    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings)
    for line in host_notes(clients(experiment)):
        messages().print(f"warning: {line}", soft_wrap=True)
    for line in question_like(experiment.dataset, experiment.named_files.values()):
        messages().print(f"note: {line}", soft_wrap=True)
    pipeline = Pipeline(experiment, settings, progress_bar)
    hits = QuestionHits(question)
    console = output()
    with work_board(lambda: pipeline.at_work):
        for found in ask(pipeline, question, retrievers, top_k):
            hits.add(found)
            if form == "table":
                console.print(Group(*hits.lines(found, styled=console.is_terminal)))
                console.print("")
    if form != "table":
        print_data(formatted(hits.rows() if form == "json" else hits.flat_rows(), form))
    elif len(hits.found) > 1:
        console.print(sheet_view(replace(hits.side_by_side(), title="", lead=())))
