"""``rag-assets cache``: what was computed once and is kept by content."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from rag_assets.cli.clean import alone, print_removed
from rag_assets.cli.options import MOST_DAYS, Number, format_option, store_option
from rag_assets.cli.terminal import output, print_data, print_line
from rag_assets.errors import UsageError
from rag_assets.pipeline.cache_pruning import prune, to_prune
from rag_assets.report.formats import formatted, size_text
from rag_assets.report.store_contents import cache_rows, dropped_rows
from rag_assets.report.terminal_table import rows_view
from rag_assets.store.cache_files import CACHE, cache_segments
from rag_assets.store.remote.removals import bring_all
from rag_assets.store.settings import StoreSettings


@click.group("cache")
def command() -> None:
    """Show or prune the caches of vectors, scores and answers.

    A lost entry loses no result. It is computed again, or asked and paid for again.

    Example: rag-assets cache info
    """


@command.command("info")
@store_option
@format_option
def info(store: Path | None, form: str) -> None:
    """Print how many entries each cache has, and how large it is.

    A space is all that determines an entry besides the text, such as a model and its prompt.

    Example: rag-assets cache info --format json
    """
    settings = StoreSettings.resolve(store)
    bring_all(settings.store, CACHE)
    rows = cache_rows(cache_segments(settings.store))
    if form != "table":
        print_data(formatted(rows, form))
    elif rows:
        output().print(rows_view(rows, ("kind", "space", "entries", "segments", "bytes")))
        size = sum(int(str(row["bytes"])) for row in rows)
        print_line(f"{size_text(size)} in all")
    else:
        print_line("the caches are empty")


@command.command("prune")
@store_option
@click.option(
    "--older-than",
    type=Number(0, MOST_DAYS),
    metavar="DAYS",
    help="Entries that were written more than this many days ago.",
)
@click.option(
    "--unused",
    is_flag=True,
    help="Vectors of texts that no snapshot has in its chunks or queries. With --older-than, both "
    "must hold.",
)
@click.option("--yes", is_flag=True, help="Do it. Without this, only say what would go.")
@format_option
def prune_command(
    store: Path | None, older_than: float | None, unused: bool, yes: bool, form: str
) -> None:
    """Remove entries from the caches.

    Example: rag-assets cache prune --older-than 90
    """
    if older_than is None and not unused:
        raise UsageError("cache prune needs --older-than DAYS, --unused, or both")
    age = timedelta(days=older_than) if older_than is not None else None
    settings = StoreSettings.resolve(store)
    with alone(settings, "cache prune", yes=yes):
        bring_all(settings.store, *([] if unused else [CACHE]))
        dropped = to_prune(settings.store, age, unused=unused)
        if yes:
            prune(settings.store, dropped)
    print_removed(dropped_rows(dropped), ("kind", "entries", "bytes"), form, done=yes)
