"""``rag-assets purge``: remove the text of one document from a store."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.clean import chosen_roots, print_removed
from rag_assets.cli.options import format_option, store_option
from rag_assets.cli.terminal import messages
from rag_assets.errors import StoreError, UsageError
from rag_assets.pipeline.cache_pruning import prune
from rag_assets.pipeline.purging import Purge, to_purge
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.reporting.removed_rows import cache_row, removed_rows
from rag_assets.reporting.rows import Row
from rag_assets.store.atomic import remove
from rag_assets.store.remote.opened import shown_store, working_copy_of
from rag_assets.store.remote.removed import whole
from rag_assets.store.settings import StoreSettings


@click.command("purge")
@store_option
@click.option("--document", "document_id", required=True, metavar="ID", help="Its id.")
@click.option("--experiment", metavar="NAME", help="Only this experiment  [default: all]")
@click.option("--yes", is_flag=True, help="Do it; without this, only say what would go.")
@format_option
def command(
    store: Path | None, document_id: str, experiment: str | None, yes: bool, form: str
) -> None:
    """Remove a document's text from every artifact, cache and database of the store.

    Documents, chunks and indexes that hold it go as a whole, and are made again by the next
    evaluation. Metrics and the history stay: they hold ids and numbers. Take the document out of
    the dataset first, or the next evaluation stores it again. Run it while no evaluation runs.

    Example: rag-assets purge --document d1 --experiment handbook
    """
    settings = StoreSettings.resolve(store)
    purges: list[Purge] = []
    with whole(settings.store):
        for root in chosen_roots(settings.store, experiment):
            found = to_purge(root, settings, document_id)
            if found is not None:
                purges.append(found)
                if yes:  # at once: experiments share the caches
                    _remove(found)
    if not purges:
        where, shown = experiment or "any experiment", shown_store(settings.store)
        problem = f"no artifact of {where} in {shown} holds a document '{document_id}'"
        raise UsageError(problem)
    if yes:
        _rebuild(settings)
    print_removed(_rows(purges), form, done=yes)
    _print_notes(settings)


def _rows(purges: list[Purge]) -> list[Row]:
    rows = []
    for one in purges:
        rows += removed_rows((one.experiment, file) for file in one.files)
        rows += cache_row(one.experiment, one.dropped)
    return rows


def _remove(purge: Purge) -> None:
    prune(purge.dropped)
    for file in purge.files:
        remove(file.path)


def _rebuild(settings: StoreSettings) -> None:
    """Write the warehouse anew; one that cannot be written must not keep the text either."""
    try:
        rebuild(settings)
    except StoreError as error:
        remove(settings.warehouse)
        messages().print(f"warning: the warehouse was removed: {error}")


def _print_notes(settings: StoreSettings) -> None:
    notes = [
        "the dataset itself, and files that were made from it outside the store (sheets, generated "
        "questions, exported runs), are not touched"
    ]
    if settings.has_dagster_home:
        notes.append(
            "DAGSTER_HOME is an instance of yours and is not touched; its runs may show the first "
            "rows of tables"
        )
    if working_copy_of(settings.store) is not None:
        notes.append(
            "other machines that use this store forget the document when they use it next; their "
            "warehouses and Dagster instances are not touched, delete their state directories"
        )
    for note in notes:
        messages().print(f"note: {note}", soft_wrap=True)
