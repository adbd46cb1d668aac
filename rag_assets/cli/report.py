"""``rag-assets report``: the last evaluation as one HTML page."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from rag_assets.cli.options import path_argument, refuse_given, store_option
from rag_assets.cli.terminal import print_line, shown_path
from rag_assets.errors import UsageError
from rag_assets.pipeline.evaluation_names import open_experiment, open_to_read
from rag_assets.report.html import report_path, write_report
from rag_assets.report.result import EvaluationResult
from rag_assets.store.settings import StoreSettings


@click.command("report")
@path_argument
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write this file  [default: report.html, or report_small.html, in the store]",
)
@click.option("--small", is_flag=True, help="Write only tables, below 100 KB, to send by mail.")
@click.option(
    "--serve",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Show the reports of the store to browsers of this machine, at http://127.0.0.1:PORT; "
    "0 is any free port",
)
@store_option
def command(
    path: Path, out: Path | None, small: bool, serve: int | None, store: Path | None
) -> None:
    """Write the last evaluation of PATH as one HTML page, and print where it is.

    The page needs no network and no other file, so you can send it to anyone. Nothing is searched
    again, and a page that is up to date is left alone.

    With --serve, it writes nothing. It serves the page, and shows each visitor the report as it is
    then. Ctrl-C ends it.

    Example: rag-assets report data/handbook
    """
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file, such as {out / 'report.html'}")
    settings = StoreSettings.resolve(store)
    if serve is not None:
        refuse_given(["out", "small"], "is of a page that is written, and --serve writes none")
        _serve(path, settings, serve)
        return
    experiment = open_to_read(path, settings)
    root = settings.store / experiment.name
    current = EvaluationResult.current(root)
    named = replace(current.evaluation, display_names=experiment.config.display_names)
    result = EvaluationResult(root, named)
    print_line(shown_path(write_report(result, out, small=small)))


def _serve(path: Path, settings: StoreSettings, port: int) -> None:
    """Answer browsers until the process is interrupted."""
    from rag_assets.report.server import ReportServer

    experiment = open_experiment(path, settings)
    server = ReportServer(settings.store, port)
    print_line(f"{server.address}/{report_path(experiment.name)}")
    with suppress(KeyboardInterrupt):
        server.run()
