"""The list of evaluated experiments: which source each name in a store belongs to.

Every reader opens an experiment by :func:`open_experiment`, so that none shows the evaluation of
another one. Dagster also finds those outside ``data/`` by it.
"""

from __future__ import annotations

import json
import logging
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rag_assets.errors import StoreError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.load import EXPERIMENT_FILE, load_experiment
from rag_assets.pipeline.evaluations import fetch_experiments, source_of_current
from rag_assets.store.atomic import write_text
from rag_assets.store.locks import locked
from rag_assets.store.settings import StoreSettings

_log = logging.getLogger("rag_assets")


def open_experiment(
    path: Path | str, settings: StoreSettings, *, take_over: bool = False
) -> Experiment:
    """Load the experiment at ``path`` under the name that it has in the store.

    Without a `name` of its own it keeps the one that the store lists it by.

    Args:
        path: as for :func:`load_experiment`.
        settings: the store.
        take_over: the name now belongs to this experiment, whoever had it: it is a copy that goes
            on with the evaluations of the original.

    Raises:
        UsageError: another experiment, which still exists, has its name in the store.
        RagAssetsError: as for :func:`load_experiment`.
    """
    experiment = load_experiment(path)
    if experiment.config.name is None:
        known = registered(settings).items()
        listed = [name for name, source in known if is_source(source, experiment)]
        if listed and experiment.name not in listed:
            experiment = replace(experiment, name=listed[-1])
    if take_over:
        register(experiment, settings, take_over=True)
    else:
        check_name(experiment, settings)
    return experiment


def open_to_read(path: Path | str, settings: StoreSettings) -> Experiment:
    """Load an experiment whose evaluations are shown, and bring these from a remote store.

    A warehouse that is stale or damaged is built anew.

    Raises:
        UsageError: another experiment, which still exists, has its name in the store.
        RagAssetsError: as for :func:`load_experiment`.
    """
    experiment = open_experiment(path, settings)
    fetch_experiments(settings, experiment.name)
    if settings.warehouse.exists():
        from rag_assets.pipeline.warehouse_time import is_current

        try:
            if not is_current(settings):
                # It reads all stages, which nothing else that is shown needs.
                from rag_assets.pipeline.warehouse import rebuild

                rebuild(settings)
        except StoreError as error:  # what is shown does not come from it
            _log.info("the warehouse is not up to date: %s", error)
    return experiment


def register(experiment: Experiment, settings: StoreSettings, *, take_over: bool = False) -> None:
    """Add the experiment to the list.

    Raises:
        UsageError: another experiment, which still exists, has its name, and is not taken over.
        StoreError: the store cannot be written.
    """
    with locked(settings.locks / "experiments.lock"):
        if not take_over:
            check_name(experiment, settings)
        known, source = registered(settings), str(experiment.source)
        if known.get(experiment.name) != source:
            write_text(settings.registry, json.dumps({**known, experiment.name: source}, indent=1))


def check_name(experiment: Experiment, settings: StoreSettings) -> None:
    """Check that the name of an experiment is its own in a store.

    It is that of the source that is listed. Where the list lies elsewhere (it is state of one
    machine), the source of the current evaluation tells.

    Raises:
        UsageError: another experiment, which still exists, has it; says how to go on.
    """
    name, source = experiment.name, experiment.source
    other = registered(settings).get(name) or source_of_current(settings.store / name)
    if other is None or is_source(other, experiment) or not _is_there(other):
        return
    store = settings.place
    command = ["rag-assets", "evaluate", str(source), "--take-over"]
    if settings.state_dir == settings.store:
        command += ["--store", store]
    raise UsageError(
        f"the name '{name}' of {source} is taken by {other} in the store {store}; give one of them "
        f"another `name` in its experiment.yaml, or use another --store; if this is a copy that "
        f"continues the evaluations there, run once: {shlex.join(command)}"
    )


def _is_there(source: str) -> bool:
    """Return whether a source exists; one that nobody may look at does."""
    try:
        Path(source).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def is_source(known: str, experiment: Experiment) -> bool:
    """Return whether a listed source is this one, by another path or with its first YAML."""
    for path in (Path(known), Path(known) / EXPERIMENT_FILE):
        with suppress(OSError, ValueError):
            if path.samefile(experiment.source):
                return True
    return False


def registered(settings: StoreSettings) -> dict[str, str]:
    """Return name -> source of every experiment on the list; what is damaged is left out."""
    try:
        known = json.loads(settings.registry.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    entries = known.items()
    return {name: src for name, src in entries if isinstance(src, str) and "/" not in name}
