"""What Dagster loads: every experiment below ``data/`` and those that were evaluated elsewhere.

One that cannot be loaded does not take the others down: it is an asset with a failed check, and a
job, which say what `rag-assets evaluate` would say. One that is gone is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import dagster as dg

from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.job import evaluate_source, one_step_job
from rag_assets.assets.names import plain_name
from rag_assets.component import unloadable
from rag_assets.errors import RagAssetsError
from rag_assets.experiment import Experiment
from rag_assets.experiment.load import EXPERIMENT_FILE
from rag_assets.experiment.names import name_from
from rag_assets.pipeline.evaluation_names import is_source, open_experiment, registered
from rag_assets.store.settings import StoreSettings

DATA = Path("data")

_logger = logging.getLogger("rag_assets")


@dg.definitions
def defs() -> dg.Definitions:
    """Return the assets, jobs, schedules and sensors of all experiments."""
    return dg.Definitions.merge(*_definitions(StoreSettings.resolve()))


def _definitions(settings: StoreSettings) -> Iterator[dg.Definitions]:
    """Yield those of every experiment, each name once; ``data/`` comes first."""
    listed = {Path(source): name for name, source in sorted(registered(settings).items())}
    files = sorted(file.absolute() for file in DATA.glob(f"*/{EXPERIMENT_FILE}"))
    names: dict[str, Experiment] = {}
    broken: dict[str, dg.Definitions] = {}
    for path in dict.fromkeys((*files, *listed)):
        load = partial(_loaded, path, settings)
        try:
            experiment, definitions = load()
        except RagAssetsError as error:
            _logger.warning("experiment left out: %s", error)
            name = listed.get(path) or name_from(path.parent.name)
            job = one_step_job(name, path, partial(evaluate_source, source=path, settings=settings))
            stub = unloadable([name, "experiment"], load, str(error))
            with suppress(OSError):
                path.stat()
                broken[plain_name(name)] = dg.Definitions.merge(stub, dg.Definitions(jobs=[job]))
            continue
        other = names.setdefault(plain_name(experiment.name), experiment)
        if other is experiment:
            yield definitions
        elif not is_source(str(other.source), experiment):
            text = "experiment left out: %s: '%s' and '%s' of %s are one name in Dagster; give one "
            text += "of them another `name`"
            _logger.warning(text, experiment.source, experiment.name, other.name, other.source)
    yield from (found for name, found in broken.items() if name not in names)


def _loaded(path: Path, settings: StoreSettings) -> tuple[Experiment, dg.Definitions]:
    experiment = open_experiment(path, settings)
    return experiment, definitions_of(experiment, settings)
