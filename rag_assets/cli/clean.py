"""``rag-assets clean``: remove what is not needed any more from the store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from rag_assets.cli.options import MOST_DAYS, Number, format_option, store_option
from rag_assets.cli.terminal import messages, output, print_data, print_line
from rag_assets.errors import UsageError, allowed_names
from rag_assets.pipeline.bringing import bring_records
from rag_assets.pipeline.cache_keys import experiment_roots
from rag_assets.pipeline.cleaning import Removable, removable
from rag_assets.pipeline.history import fill_in
from rag_assets.reporting.formats import formatted
from rag_assets.reporting.removed_rows import removed_rows
from rag_assets.reporting.rows import Row
from rag_assets.reporting.rows_view import rows_view
from rag_assets.reporting.sizes import size_text
from rag_assets.store.atomic import remove
from rag_assets.store.remote.removed import whole
from rag_assets.store.settings import StoreSettings


@click.command("clean")
@store_option
@click.option("--experiment", metavar="NAME", help="Only this experiment  [default: all]")
@click.option(
    "--older-than",
    type=Number(0, MOST_DAYS),
    metavar="DAYS",
    help="Snapshots of evaluations that began longer ago, and what they alone name.",
)
@click.option("--orphans", is_flag=True, help="Artifacts that no snapshot names.")
@click.option("--yes", is_flag=True, help="Do it; without this, only say what would go.")
@format_option
def command(
    store: Path | None,
    experiment: str | None,
    older_than: float | None,
    orphans: bool,
    yes: bool,
    form: str,
) -> None:
    """Remove old evaluations and artifacts that none names from the store.

    The latest evaluation, the anchor and what they name always stay, and so do the rows of the
    history: means over time are kept. An orphan that is younger than an hour stays too, as it may
    belong to an evaluation that runs now.

    Example: rag-assets clean --older-than 90 --orphans
    """
    if older_than is None and not orphans:
        raise UsageError("clean needs --older-than DAYS, --orphans, or both")
    settings = StoreSettings.resolve(store)
    age = timedelta(days=older_than) if older_than is not None else None
    found: list[tuple[str, Removable]] = []
    with whole(settings.store):
        for root in chosen_roots(settings.store, experiment):
            listed = {one.path for _, one in found}
            own = removable(root, age, orphans=orphans)
            found += [(root.name, one) for one in own if one.path not in listed]
            if yes:
                fill_in(root, settings.locks)
        if yes:
            for _, one in found:
                remove(one.path)
    print_removed(removed_rows(found), form, done=yes)


def chosen_roots(store: Path, experiment: str | None) -> list[Path]:
    """Return the folders of all experiments in the store, or of one.

    Raises:
        UsageError: the store has no such experiment.
    """
    roots = {root.name: root for root in experiment_roots(store)}
    if experiment is not None and experiment not in roots:
        raise UsageError(f"unknown experiment {allowed_names(experiment, roots)}")
    chosen = [root for name, root in roots.items() if experiment in (None, name)]
    for root in chosen:
        bring_records(root)  # another machine may have made another evaluation the latest
    return chosen


def print_removed(rows: list[Row], form: str, *, done: bool) -> None:
    """Print what goes, or went."""
    size = size_text(sum(int(str(row["bytes"])) for row in rows))
    if form != "table":
        print_data(formatted(rows, form))
    elif rows:
        output().print(rows_view(rows, ("experiment", "what", "count", "bytes")))
        print_line(f"{size} {'removed' if done else 'would be removed'}")
    else:
        print_line("nothing to remove")
    if rows and not done:
        messages().print("nothing was removed; --yes does it", markup=False)
