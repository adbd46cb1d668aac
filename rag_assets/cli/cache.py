"""``rag-assets cache``: what was computed once and is kept by content."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import format_option, store_option
from rag_assets.cli.terminal import output, print_data, print_line
from rag_assets.report.formats import formatted, size_text
from rag_assets.report.store_status import cache_rows
from rag_assets.report.terminal_table import rows_view
from rag_assets.store.content_cache import CACHE, cache_segments
from rag_assets.store.settings import StoreSettings


@click.group("cache")
def command() -> None:
    """Show the caches of vectors, scores and answers; `clean --caches DAYS` removes old entries.

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
    if settings.remote is not None:
        settings.remote.refresh()
        settings.remote.fetch(CACHE)
    rows = cache_rows(cache_segments(settings.store))
    if form != "table":
        print_data(formatted(rows, form))
    elif rows:
        output().print(rows_view(rows, ("kind", "space", "entries", "segments", "bytes")))
        size = sum(int(str(row["bytes"])) for row in rows)
        print_line(f"{size_text(size)} in all")
    else:
        print_line("the caches are empty")
