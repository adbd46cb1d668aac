"""``type: rag_assets.RetrievalExperiment``: an experiment as a component of a Dagster project.

Without `from __future__ import annotations`: Dagster reads the annotations of the fields itself.
"""

import logging
import os
from pathlib import Path
from typing import Annotated

import dagster as dg
from dagster.components.component.component import ComponentTypeSpec
from pydantic import BaseModel, Field

from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.errors import RagAssetsError
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.store.remote import Address
from rag_assets.store.settings import DEFAULT_STORE, StoreSettings

_logger = logging.getLogger("rag_assets")

_PATH = dg.Resolver.default(
    description=(
        "The experiment: a folder with an experiment.yaml, such a file, or any dataset folder or "
        "file, which gets the default experiment. Relative to the folder of this defs.yaml."
    ),
    examples=["../../../../data/handbook", "experiment.yaml"],
)
_STORE = dg.Resolver.default(
    description=(
        "The folder that results are kept in, relative to the folder of this defs.yaml, or "
        "s3://BUCKET/PREFIX. Default: the environment variable RAG_ASSETS_STORE, or data/store "
        "below the folder of the project, wherever it is called from."
    ),
    examples=["../../../../data/store", "{{ env.RAG_ASSETS_STORE }}"],
)
_STRICT = dg.Resolver.default(
    description=(
        "Whether an experiment that cannot be loaded stops the whole project from loading. "
        "Default: false; it is then left out with a warning, and all else is loaded."
    ),
)


class ScaffoldParams(BaseModel):
    """What `dg scaffold defs` asks for."""

    path: str = Field(description="The experiment, relative to the new defs.yaml.")
    store: str | None = Field(None, description="The folder that results are kept in.")


class _Scaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes a defs.yaml with the parameters that were given, and with the store."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        given = request.params.model_dump(exclude_none=True)
        if request.project_root is not None and "RAG_ASSETS_STORE" not in os.environ:
            store = os.path.relpath(request.project_root / DEFAULT_STORE, request.target_path)
            given.setdefault("store", Path(store).as_posix())
        dg.scaffold_component(request, given)


@dg.scaffold_with(_Scaffolder)
class RetrievalExperiment(dg.Component, dg.Model, dg.Resolvable):
    """Which retrieval configuration is best on your questions: one experiment as assets.

    Every stage of the experiment is an asset with the partitions that it has, and with its checks;
    a job evaluates all of it, by a schedule where there is one. All names begin with the
    experiment's, so experiments stand side by side.
    """

    path: Annotated[str, _PATH]
    store: Annotated[str | None, _STORE] = None
    strict: Annotated[bool, _STRICT] = False

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        """Return what `dg` lists of the type."""
        return ComponentTypeSpec(
            tags=["rag", "evaluation"],
            produces=["asset", "asset_check", "job", "schedule", "sensor"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the assets of the experiment, its checks, job, schedule and sensors.

        An experiment that is not valid, or whose name another one has in the store, is left out
        with a warning that names file, line and key.

        Raises:
            DagsterInvalidDefinitionError: the store cannot be used, or the component is `strict`
                and the experiment is not valid.
        """
        try:
            settings = self._settings(context)
        except RagAssetsError as error:
            raise dg.DagsterInvalidDefinitionError(str(error)) from None
        try:
            experiment = open_experiment(context.path / self.path, settings)
        except RagAssetsError as error:
            if self.strict:
                raise dg.DagsterInvalidDefinitionError(str(error)) from None
            _logger.warning("experiment left out: %s", error)
            return dg.Definitions()
        return definitions_of(experiment, settings)

    def _settings(self, context: dg.ComponentLoadContext) -> StoreSettings:
        if self.store is None:
            return StoreSettings.resolve(below=context.project_root)
        if Address.of(self.store) is not None:
            return StoreSettings.resolve(self.store)
        return StoreSettings.resolve((context.path / self.store).resolve())
