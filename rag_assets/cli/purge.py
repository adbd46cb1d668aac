"""``rag-assets purge``: remove the text of one document from a store."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from rag_assets.cli.clean import REMOVED, alone, brought_roots, print_removed
from rag_assets.cli.options import format_option, store_option
from rag_assets.cli.terminal import messages
from rag_assets.errors import StoreError, UsageError
from rag_assets.pipeline.cache_pruning import prune
from rag_assets.pipeline.purging import LAST, Purge, to_purge
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.report.store_contents import cache_row, removed_rows
from rag_assets.store.atomic import remove
from rag_assets.store.remote.mirror import shown_store, working_copy_of
from rag_assets.store.remote.removals import remove_everywhere
from rag_assets.store.settings import StoreSettings


@click.command("purge")
@store_option
@click.option("--document", "document_id", required=True, metavar="ID", help="Id of the document.")
@click.option(
    "--experiment", metavar="NAME", help="The experiment that has the document  [default: any]"
)
@click.option("--yes", is_flag=True, help="Do it. Without this, only say what would go.")
@format_option
def command(
    store: Path | None, document_id: str, experiment: str | None, yes: bool, form: str
) -> None:
    """Remove a document's text from every artifact, cache and database of the store.

    Remove the document from your datasets first, or the next evaluation stores it again.

    The text goes from all experiments of the store, whatever id it has there, and they are named.
    Documents, chunks and indexes that hold it are removed as a whole; the next evaluation builds
    them again. Metrics and the history stay, since they hold only ids and numbers.

    Example: rag-assets purge --document d1 --experiment handbook
    """
    settings = StoreSettings.resolve(store)
    with alone(settings, "purge", yes=yes):
        brought_roots(settings.store, experiment)
        purge = to_purge(settings, document_id, experiment)
        if purge is None:
            where, shown = experiment or "any experiment", shown_store(settings.store)
            problem = f"no artifact of {where} in {shown} holds a document '{document_id}'"
            raise UsageError(problem)
        if yes:
            prune(settings.store, purge.dropped)
            for last in (False, True):
                gone = [one.path for one in purge.files if (one.kind in LAST) is last]
                remove_everywhere(settings.store, gone)
            _rebuild(settings)
    rows = removed_rows(purge.files) + cache_row(purge.dropped, "holds the text")
    print_removed(rows, REMOVED, form, done=yes)
    _print_notes(settings, purge)


def _rebuild(settings: StoreSettings) -> None:
    """Write the warehouse anew; one that cannot be written must not keep the text either."""
    try:
        rebuild(settings)
    except StoreError as error:
        remove(settings.warehouse)
        messages().print(f"warning: the warehouse was removed: {error}")


def _print_notes(settings: StoreSettings, purge: Purge) -> None:
    notes = [
        f"{name} has to be evaluated again: rag-assets evaluate {shlex.quote(source)}"
        for name, source in sorted(purge.sources.items())
    ]
    notes += [f"{path} is kept; a piece of the text stands in it" for path in purge.kept]
    notes += [
        "the dataset itself, and files that were made from it outside the store, are not touched: "
        "sheets, generated questions, exported runs and verdicts, and what people said of answers "
        "(answer_labels.jsonl), may hold pieces of the text",
        "people's labels of passages (labelling.jsonl with its .design and .questions files, "
        "passage_labels.jsonl) are not touched: they hold the document's id, places in it and the "
        "names of who labelled; of its text only what somebody typed as a question's wording",
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
