"""What Dagster loads: every experiment below ``data/`` and those that were evaluated elsewhere.

An experiment that cannot be loaded does not take the others down: it is logged with the line that
`rag-assets evaluate` would print.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.names import plain_name
from rag_assets.errors import RagAssetsError
from rag_assets.experiment import Experiment
from rag_assets.experiment.load import EXPERIMENT_FILE
from rag_assets.pipeline.evaluation_names import is_source, open_experiment, registered
from rag_assets.store.settings import StoreSettings

DATA = Path("data")

_logger = logging.getLogger("rag_assets")


@dg.definitions
def defs() -> dg.Definitions:
    """Return the assets, jobs, schedules and sensors of all experiments."""
    settings = StoreSettings.resolve()
    experiments = list(_experiments(settings))
    return dg.Definitions.merge(
        *(definitions_of(experiment, settings) for experiment in experiments)
    )


def _experiments(settings: StoreSettings) -> Iterator[Experiment]:
    """Yield every experiment that can be loaded, each name once; ``data/`` comes first."""
    paths = sorted(file.parent for file in DATA.glob(f"*/{EXPERIMENT_FILE}"))
    paths += [Path(source) for _, source in sorted(registered(settings).items())]
    names: dict[str, Experiment] = {}
    for path in paths:
        try:
            experiment = open_experiment(path, settings)
        except RagAssetsError as error:
            _logger.warning("experiment left out: %s", error)
            continue
        other = names.setdefault(plain_name(experiment.name), experiment)
        if other is experiment:
            yield experiment
        elif not is_source(str(other.source), experiment):
            _logger.warning(
                "experiment left out: %s: '%s' and '%s' of %s are one name in Dagster; "
                "give one of them another `name`",
                experiment.source,
                experiment.name,
                other.name,
                other.source,
            )
