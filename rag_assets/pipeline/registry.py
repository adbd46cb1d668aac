"""The list of evaluated experiments, so that Dagster shows those outside ``data/`` too."""

from __future__ import annotations

import json
from pathlib import Path

from rag_assets.errors import UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.load import EXPERIMENT_FILE
from rag_assets.store.atomic import write_text
from rag_assets.store.locks import locked
from rag_assets.store.remote.opened import shown_store
from rag_assets.store.settings import StoreSettings


def register(experiment: Experiment, settings: StoreSettings) -> None:
    """Add the experiment to the list.

    Raises:
        UsageError: another experiment, which still exists, has its name.
    """
    with locked(settings.locks / "experiments.lock"):
        known = registered(settings)
        other = known.get(experiment.name)
        source = str(experiment.source)
        if other is not None and not _same(Path(other), experiment.source):
            raise UsageError(
                f"the name '{experiment.name}' of {source} is taken by {other} in the store "
                f"{shown_store(settings.store)}; give one of them another `name` in its "
                f"experiment.yaml, or use another --store"
            )
        if other != source:
            write_text(settings.registry, json.dumps({**known, experiment.name: source}, indent=1))


def _same(known: Path, source: Path) -> bool:
    """Return whether ``source`` is the known one, by another path or with its first YAML."""
    paths = [path for path in (known, known / EXPERIMENT_FILE) if path.exists()]
    return not paths or any(path.samefile(source) for path in paths)


def registered(settings: StoreSettings) -> dict[str, str]:
    """Return name -> source of every experiment on the list."""
    try:
        known = json.loads(settings.registry.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
