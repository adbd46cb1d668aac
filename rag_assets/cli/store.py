"""What a store holds, and what is removed from it."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

from rag_assets.analysis.store_status import (
    best_names,
    removed_rows,
    removed_sheet,
    status_rows,
    status_sheet,
)
from rag_assets.cli.terminal import print_message, print_note, print_rows, shown_path
from rag_assets.errors import StoreError, UsageError, allowed_names
from rag_assets.input_files import read_bytes
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.cleaning import removable
from rag_assets.pipeline.evaluations import stored_experiments
from rag_assets.pipeline.forgetting import Forgotten, to_forget
from rag_assets.pipeline.history import fill_in
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.store.atomic import remove
from rag_assets.store.content_cache import CACHE, COMPLETIONS
from rag_assets.store.locks import exclusive_lease
from rag_assets.store.settings import StoreSettings


def print_status(store: Path | None, form: str) -> None:
    """List the experiments of a store: last evaluation, best retriever, and what is out of date."""
    settings = StoreSettings.resolve(store)
    rows, damage = status_rows(settings)
    if form in ("csv", "markdown"):
        rows = [{**row, "best": best_names(row)} for row in rows]
    print_rows(rows, form, lambda: [status_sheet(rows, shown_path(settings.store))])
    if damage:
        raise damage[0]


def clean(
    store: Path | None,
    experiment: str | None,
    older_than: float | None,
    orphans: bool,
    caches: float | None,
    document_id: str | None,
    text: Path | None,
    yes: bool,
    form: str,
) -> None:
    """Remove old evaluations from the store, files that no evaluation needs, and texts."""
    forget = document_id is not None or text is not None
    if forget and (older_than is not None or orphans or caches is not None):
        raise UsageError("--document and --text cannot be combined with the other options")
    if not forget and older_than is None and not orphans and caches is None:
        options = "--older-than DAYS, --orphans, --caches DAYS, --document ID or --text FILE"
        raise UsageError(f"clean needs {options}")
    settings = StoreSettings.resolve(store)
    age, cache_age = (None if n is None else timedelta(days=n) for n in (older_than, caches))
    forgotten = None
    with exclusive_lease(settings, "`rag-assets clean`") if yes else nullcontext():
        if yes:  # replies that killed processes left come where all are looked for
            ReplyStore(settings.store / CACHE / COMPLETIONS).settle()
        roots = _roots(settings, experiment)
        if forget:
            forgotten = _texts_found(settings, document_id, text, experiment)
            items = forgotten.items
        else:
            items = removable(
                settings, age, orphans=orphans, cache_age=cache_age, experiment=experiment
            )
        if yes and forgotten is not None:
            forgotten.remove(settings)
            _rebuild(settings)
        elif yes:
            for root in roots:
                fill_in(root, settings.locks)
            settings.remove(item.path for item in items)
    rows = removed_rows(items)
    print_rows(rows, form, lambda: [removed_sheet(items, done=yes)])
    if rows and not yes:
        print_message("nothing was removed; add --yes to remove it")
    if forgotten is not None:
        _print_notes(settings, forgotten)


def _texts_found(
    settings: StoreSettings, document_id: str | None, file: Path | None, experiment: str | None
) -> Forgotten:
    text = None
    if file is not None:
        text = read_bytes(file).decode("utf-8", "replace").strip()
        if not text or "\ufffd" in text:
            raise UsageError(f"{file}: holds no text in UTF-8")
    forgotten = to_forget(settings, document_id, text, experiment)
    if forgotten is None:
        where, store = experiment or "any experiment", settings.place
        raise UsageError(f"no artifact of {where} in {store} holds a document '{document_id}'")
    return forgotten


def _rebuild(settings: StoreSettings) -> None:
    """Write the warehouse anew; one that cannot be written must not keep the text either."""
    try:
        rebuild(settings)
    except StoreError as error:
        remove(settings.warehouse)
        print_message(f"warning: the warehouse was removed: {error}")


def _print_notes(settings: StoreSettings, forgotten: Forgotten) -> None:
    notes = [
        f"{name} has to be evaluated again: rag-assets evaluate {shlex.quote(source)}"
        for name, source in sorted(forgotten.sources.items())
    ]
    notes += [f"{path} is kept, although it contains a part of the text" for path in forgotten.kept]
    notes += [
        "the dataset, and files made from it outside the store, are not touched: "
        "sheets, generated questions, exported runs and verdicts, and labels of answers "
        "(answer_labels.jsonl) may contain parts of the text",
        "people's labels of passages (labelling.jsonl with its .design and .questions files, "
        "passage_labels.jsonl) are not touched: they hold the document's id, positions in it and "
        "the names of the people who labelled it; of its text, only what somebody typed into a "
        "question",
    ]
    if settings.has_dagster_home:
        notes.append(
            "DAGSTER_HOME is your own instance and is not touched; its runs may show "
            "the first rows of tables"
        )
    if settings.remote is not None:
        notes.append(
            "other machines remove the text when they next use this store; their "
            "warehouses and Dagster instances are not touched, so delete their state directories"
        )
    for note in notes:
        print_note(note)


def _roots(settings: StoreSettings, experiment: str | None) -> list[Path]:
    """Return the folders of all experiments in the store, or of one; all records are brought."""
    if settings.remote is not None:
        settings.remote.pull()  # another machine may have made another evaluation the latest
    roots = {root.name: root for root in stored_experiments(settings.store)}
    if experiment is not None and experiment not in roots:
        raise UsageError(f"unknown experiment {allowed_names(experiment, roots)}")
    return [root for name, root in roots.items() if experiment in (None, name)]
