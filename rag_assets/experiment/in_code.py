"""From data in Python to an :class:`Experiment`: no YAML file, so errors name keys alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rag_assets.errors import ConfigError
from rag_assets.experiment.config import ExperimentConfig, RetrieverConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.load import KINDS, complete
from rag_assets.experiment.names import FOR_PEOPLE, checked_name
from rag_assets.experiment.problems import first_problem
from rag_assets.experiment.yaml_file import dotted
from rag_assets.options import Location

SOURCE = "source"
"""Folder of the data in the experiment's folder of a store, where the data is given in code too."""


def experiment_in_code(
    source: Path,
    data: Mapping[str, Any],
    made: Mapping[str, RetrieverConfig],
    order: Sequence[str],
) -> Experiment:
    """Return an experiment whose configuration is given in code.

    Args:
        source: folder of the data.
        data: what would stand in an ``experiment.yaml``.
        made: further retrievers, as options.
        order: names of all retrievers; the first is the baseline unless ``data`` names one.

    Raises:
        ConfigError: the data is not valid; names the key.
    """
    for kind in KINDS:
        kind.check()
    try:
        config = ExperimentConfig.model_validate({**data, "dataset": _at(source, data)})
    except ValidationError as error:
        raise refused(error, data) from error
    for name in made:
        try:
            checked_name(name)
        except ValueError as error:
            raise ConfigError(f"{error}; {FOR_PEOPLE}", key=f"retrievers.{name}") from error
    retrievers = {**config.retrievers, **made}
    ordered = {name: retrievers[name] for name in order}
    return complete(source, None, config.model_copy(update={"retrievers": ordered}))


def _at(source: Path, data: Mapping[str, Any]) -> object:
    dataset = data.get("dataset", {})
    return {**dataset, "path": source} if isinstance(dataset, Mapping) else dataset


def refused(
    error: ValidationError, data: Mapping[str, Any], above: Location = (), n_hidden: int = 0
) -> ConfigError:
    """Return the error for data in code that is not valid.

    Args:
        error: what pydantic says.
        data: what was validated, from the top of an experiment.
        above: where the part is that was validated, the type of its member included.
        n_hidden: so many keys above it are not told.
    """
    errors = [{**one, "loc": (*above, *one["loc"])} for one in error.errors()]
    location, text = first_problem(errors, dict.fromkeys(_locations(data), 0))
    return ConfigError(text, key=dotted(location[n_hidden:]))


def _locations(value: object, place: Location = ()) -> Iterator[Location]:
    """Yield the place of every key and item."""
    items: Iterable[tuple[Any, object]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for key, one in items:
        yield (*place, key)
        yield from _locations(one, (*place, key))
