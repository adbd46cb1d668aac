"""``rag-assets clean``: remove what is not needed any more from the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

import click

from rag_assets.cli.options import MOST_DAYS, Number, format_option, store_option
from rag_assets.cli.terminal import messages, output, print_data, print_line
from rag_assets.errors import UsageError, allowed_names
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.cleaning import removable
from rag_assets.pipeline.history import fill_in
from rag_assets.pipeline.remote_sync import bring_records, experiment_roots
from rag_assets.report.formats import Row, formatted, size_text
from rag_assets.report.store_contents import removed_rows
from rag_assets.report.terminal_table import rows_view
from rag_assets.store.cache_files import CACHE, COMPLETIONS
from rag_assets.store.locks import removing
from rag_assets.store.remote.removals import remove_everywhere
from rag_assets.store.settings import StoreSettings

REMOVED = ("experiment", "what", "why", "count", "bytes")
"""Columns of what is removed from a store."""


@click.command("clean")
@store_option
@click.option("--experiment", metavar="NAME", help="Only this experiment  [default: all]")
@click.option(
    "--older-than",
    type=Number(0, MOST_DAYS),
    metavar="DAYS",
    help="Evaluations that began more than this many days ago, and what only they need.",
)
@click.option("--orphans", is_flag=True, help="Artifacts that no evaluation needs.")
@click.option("--yes", is_flag=True, help="Do it. Without this, only say what would go.")
@format_option
def command(
    store: Path | None,
    experiment: str | None,
    older_than: float | None,
    orphans: bool,
    yes: bool,
    form: str,
) -> None:
    """Remove old evaluations from the store, and artifacts that no evaluation needs.

    The latest evaluation and the anchor of every experiment always stay, with all that they need.
    The history stays too, so you keep the means over time. So does an orphan that is less than an
    hour old. Nothing is removed while an evaluation runs.

    Example: rag-assets clean --older-than 90 --orphans
    """
    if older_than is None and not orphans:
        raise UsageError("clean needs --older-than DAYS, --orphans, or both")
    settings = StoreSettings.resolve(store)
    age = timedelta(days=older_than) if older_than is not None else None
    with alone(settings, "clean", yes=yes):
        roots = brought_roots(settings.store, experiment)
        items = removable(settings.store, age, orphans=orphans, experiment=experiment)
        if yes:
            for root in roots:
                fill_in(root, settings.locks)
            remove_everywhere(settings.store, [one.path for one in items])
    print_removed(removed_rows(items), REMOVED, form, done=yes)


def alone(settings: StoreSettings, command: str, *, yes: bool) -> AbstractContextManager[None]:
    """Have the store alone, if something is removed from it.

    Raises:
        StoreError: an evaluation runs, or something else removes.
    """
    return _settled(settings, command) if yes else nullcontext()


@contextmanager
def _settled(settings: StoreSettings, command: str) -> Iterator[None]:
    """Have it alone, with the replies that killed processes left where all are looked for."""
    with removing(settings.store, f"`rag-assets {command}`"):
        ReplyStore(settings.store / CACHE / COMPLETIONS).settle()
        yield


def brought_roots(store: Path, experiment: str | None) -> list[Path]:
    """Return the folders of all experiments in the store, or of one; all records are brought.

    Raises:
        UsageError: the store has no such experiment.
    """
    roots = {root.name: root for root in experiment_roots(store)}
    if experiment is not None and experiment not in roots:
        raise UsageError(f"unknown experiment {allowed_names(experiment, roots)}")
    for root in roots.values():
        bring_records(root)  # another machine may have made another evaluation the latest
    return [root for name, root in roots.items() if experiment in (None, name)]


def print_removed(rows: list[Row], columns: Sequence[str], form: str, *, done: bool) -> None:
    """Print what goes, or went."""
    size = size_text(sum(int(str(row["bytes"])) for row in rows))
    if form != "table":
        print_data(formatted(rows, form))
    elif rows:
        output().print(rows_view(rows, columns))
        print_line(f"{size} {'removed' if done else 'would be removed'}")
    else:
        print_line("nothing to remove")
    if rows and not done:
        messages().print("nothing was removed; --yes does it")
