"""What a run needs besides the experiment, as resources of Dagster: the store, keys of models.

They are shown in the UI with the environment variables that they are read from, and a code location
may give others, such as keys from a vault. A model's address is no resource: it is part of what
determines a result, so it stands in the experiment alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from pydantic import Field

from rag_assets.assets.names import plain_name
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.servers.secrets import given_keys
from rag_assets.store.settings import StoreSettings


class RetrievalStore(dg.ConfigurableResource[object]):
    """Where the results and the state of an experiment are kept."""

    store: str = Field(description="The folder that artifacts are kept in, or s3://BUCKET/PREFIX.")
    state_dir: str = Field(description="A folder on a local disk: locks, the warehouse.")

    @classmethod
    def of(cls, settings: StoreSettings) -> RetrievalStore:
        """Return settings as a resource, by the variables that they come from, where they do."""
        return cls(
            store=_variable_or("RAG_ASSETS_STORE", settings.place),
            state_dir=_variable_or("RAG_ASSETS_STATE_DIR", settings.state_dir),
        )

    def settings(self) -> StoreSettings:
        """Return it as the pipeline has it."""
        return StoreSettings.at(self.store, self.state_dir)


class ModelKeys(dg.ConfigurableResource[object]):
    """Keys of the servers that an experiment asks; a subclass may ``read`` them from elsewhere.

    The UI shows what stands in a field, so only environment variables belong there.
    """

    api_keys: dict[str, str] = Field(
        default={}, description="Name that the experiment gives as `api_key_env` -> the key."
    )

    @classmethod
    def of(cls, experiment: Experiment) -> ModelKeys:
        """Return the keys that are set; one that is missing is asked for when it is needed."""
        names = [name for name in key_variables(experiment) if os.environ.get(name)]
        return cls(api_keys={name: dg.EnvVar(name) for name in names})

    def read(self) -> Mapping[str, str]:
        """Return name of a variable -> key; asked once for each step that is run."""
        return self.api_keys


class Resources:
    """The resources of one experiment, by names that no other one has."""

    def __init__(self, experiment: Experiment) -> None:
        """Name them."""
        self.store = f"{plain_name(experiment)}_store"
        self.keys = f"{plain_name(experiment)}_keys"

    @property
    def names(self) -> set[str]:
        """What a step asks Dagster for."""
        return {self.store, self.keys}

    def settings(self, context: dg.OpExecutionContext) -> StoreSettings:
        """Return where the results of a step are kept."""
        store: RetrievalStore = getattr(context.resources, self.store)
        return store.settings()

    @contextmanager
    def opened(self, context: dg.OpExecutionContext, experiment: Experiment) -> Iterator[Pipeline]:
        """Yield the pipeline of a step; models that are opened meanwhile use its keys."""
        with given_keys(getattr(context.resources, self.keys).read()):
            yield Pipeline(experiment, self.settings(context))


def resources_of(
    experiment: Experiment, settings: StoreSettings
) -> Mapping[str, dg.ConfigurableResource[object]]:
    """Return the resources of one experiment by name."""
    named = Resources(experiment)
    return {named.store: RetrievalStore.of(settings), named.keys: ModelKeys.of(experiment)}


def key_variables(experiment: Experiment) -> list[str]:
    """Return the names that an experiment gives as ``api_key_env``."""
    asked = [
        experiment.config.llm,
        *experiment.config.llms.values(),
        *experiment.retrievers.values(),
    ]
    variables = {getattr(one, "api_key_env", None) for one in asked}
    return sorted(name for name in variables if name)


def _variable_or(variable: str, place: Path | str) -> str:
    """Return the variable where it names the place, else the place."""
    text = os.environ.get(variable)
    if text and str(place) in (text, str(Path(text).absolute())):
        return dg.EnvVar(variable)
    return str(place)
