"""``rag-assets status``: the experiments of a store at a glance."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import format_option, store_option
from rag_assets.cli.terminal import print_rows, shown_path
from rag_assets.report.store_status import best_names, status_rows, status_sheet
from rag_assets.report.terminal_table import sheet_view
from rag_assets.store.settings import StoreSettings


@click.command("status")
@store_option
@format_option
def command(store: Path | None, form: str) -> None:
    """List the experiments of a store: last evaluation, best retriever, and what is out of date.

    `now` says what `evaluate` would compute or check; `rag-assets plan` says why. Nothing is
    computed.

    Example: rag-assets status
    """
    settings = StoreSettings.resolve(store)
    rows = status_rows(settings)
    if form in ("csv", "markdown"):
        rows = [{**row, "best": best_names(row)} for row in rows]
    print_rows(rows, form, lambda: sheet_view(status_sheet(rows, shown_path(settings.store))))
