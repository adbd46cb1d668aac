"""``rag-assets judge``: what judges said, for others to check."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import path_argument, store_option
from rag_assets.cli.terminal import print_line
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.registry import open_experiment
from rag_assets.pipeline.verdict_export import export_verdicts
from rag_assets.store.settings import StoreSettings


@click.group("judge")
def command() -> None:
    """Hand on what judges said of passages and answers.

    Example: rag-assets judge export data/handbook --judge strict --out a.jsonl
    """


@command.command("export")
@path_argument
@click.option("--judge", required=True, metavar="NAME", help="Whose verdicts.")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write, one JSON object a line.",
)
@store_option
def export(path: Path, judge: str, out: Path, store: Path | None) -> None:
    """Write the verdicts of a judge with its replies, word for word.

    `type: recorded` reads such a file: whoever has it can check every verdict without a key.

    Example: rag-assets judge export data/handbook --judge strict --out a.jsonl
    """
    settings = StoreSettings.resolve(store)
    pipeline = Pipeline(open_experiment(path, settings), settings)
    print_line(f"{out}: {export_verdicts(pipeline, judge, out)} verdicts of {judge}")
