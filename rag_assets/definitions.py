"""What Dagster loads: every experiment below ``data/`` and those that were evaluated elsewhere.

An experiment that cannot be loaded does not take the others down: it is logged with the line that
`rag-assets evaluate` would print.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dagster as dg

from rag_assets.assets.build import build_assets
from rag_assets.errors import RagAssetsError
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.experiment.load import EXPERIMENT_FILE
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.registry import registered
from rag_assets.store.settings import StoreSettings

DATA = Path("data")

_logger = logging.getLogger("rag_assets")


@dg.definitions
def defs() -> dg.Definitions:
    """Return the assets of all experiments."""
    settings = StoreSettings.resolve()
    assets = []
    for experiment in _experiments(settings):
        assets += build_assets(experiment, partial(Pipeline, experiment, settings))
    return dg.Definitions(assets=assets)


def _experiments(settings: StoreSettings) -> Iterator[Experiment]:
    """Yield every experiment that can be loaded, each name once; ``data/`` comes first."""
    known = sorted(file.parent for file in DATA.glob(f"*/{EXPERIMENT_FILE}"))
    known += [Path(source) for _, source in sorted(registered(settings).items())]
    names: set[str] = set()
    for path in known:
        try:
            experiment = load_experiment(path)
        except RagAssetsError as error:
            _logger.warning("experiment left out: %s", error)
            continue
        if experiment.name not in names:
            names.add(experiment.name)
            yield experiment
