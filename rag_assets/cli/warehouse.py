"""``rag-assets warehouse``: the DuckDB file that shows what is current, and the history."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import store_option
from rag_assets.cli.terminal import print_line
from rag_assets.pipeline.evaluations import fetch_experiments
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.store.settings import StoreSettings


@click.group("warehouse")
def command() -> None:
    """Rebuild `warehouse.duckdb`.

    Example: rag-assets warehouse rebuild
    """


@command.command("rebuild")
@store_option
def rebuild_command(store: Path | None) -> None:
    """Rebuild the warehouse from the snapshots and the history, if it was deleted or damaged.

    Example: rag-assets warehouse rebuild
    """
    settings = StoreSettings.resolve(store)
    fetch_experiments(settings)
    print_line(f"wrote {rebuild(settings)}")
