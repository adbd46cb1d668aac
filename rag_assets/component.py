"""``type: rag_assets.RetrievalExperiment``: an experiment as a component of a Dagster project.

Without `from __future__ import annotations`: Dagster reads the annotations of the fields itself.
"""

import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import dagster as dg
from dagster.components.component.component import ComponentTypeSpec
from pydantic import BaseModel, Field

from rag_assets.assets.execution import sensor_seconds
from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.names import plain_name
from rag_assets.errors import RagAssetsError
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.plain_text import markdown
from rag_assets.store.remote import Address
from rag_assets.store.settings import DEFAULT_STORE, StoreSettings

_logger = logging.getLogger("rag_assets")

_PATH = dg.Resolver.default(
    description=(
        "The experiment: a folder with an experiment.yaml, that file, or any dataset folder "
        "or file, which gets the default experiment. Relative to the folder of this defs.yaml."
    ),
    examples=["../../../../data/handbook", "experiment.yaml"],
)
_STORE = dg.Resolver.default(
    description=(
        "The folder for results, relative to the folder of this defs.yaml, "
        "or s3://BUCKET/PREFIX. Default: the environment variable RAG_ASSETS_STORE, "
        "or data/store in the folder of the project."
    ),
    examples=["../../../../data/store", "{{ env.RAG_ASSETS_STORE }}"],
)
_DEPS = dg.Resolver.default(
    description=(
        "Assets of the project that bring the files of the experiment: its documents, queries and "
        "qrels depend on them. `deps` in the experiment.yaml says it for each."
    ),
    examples=[["raw_pages"]],
)
_RAY = dg.Resolver.default(
    description=(
        "Key of a resource of the project, a `RayResource` of `dagster-ray`. It starts or joins "
        "the Ray cluster that `compute: ray` uses."
    ),
    examples=["ray"],
)
_STRICT = dg.Resolver.default(
    description=(
        "Whether an experiment that cannot be loaded stops the whole project from loading. "
        "Default: false; the experiment is then one asset with a failed check, and everything else "
        "is loaded."
    ),
)


class ScaffoldParams(BaseModel):
    """What `dg scaffold defs` asks for."""

    path: str = Field(description="The experiment, relative to the new defs.yaml.")
    store: str | None = Field(None, description="The folder for results.")


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
    deps: Annotated[list[str], _DEPS] = Field(default_factory=list)
    ray: Annotated[str | None, _RAY] = None
    strict: Annotated[bool, _STRICT] = False

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        """Return what `dg` lists of the type."""
        produced = ["asset", "asset_check", "job", "schedule", "sensor"]
        return ComponentTypeSpec(tags=["rag", "evaluation"], produces=produced)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the assets of the experiment, its checks, job, schedule and sensors.

        Of an experiment that is not valid, or whose name another one has in the store, it is one
        asset with a failed check, which names file, line and key.

        Raises:
            DagsterInvalidDefinitionError: the store cannot be used, or the component is `strict`
                and the experiment is not valid.
        """
        try:
            settings = self._settings(context)
        except RagAssetsError as error:
            raise dg.DagsterInvalidDefinitionError(str(error)) from None

        def load() -> dg.Definitions:
            experiment = open_experiment(context.path / self.path, settings)
            return definitions_of(experiment, settings, self.deps, self.ray)

        try:
            return load()
        except RagAssetsError as error:
            if self.strict:
                raise dg.DagsterInvalidDefinitionError(str(error)) from None
            _logger.warning("experiment left out: %s", error)
            return unloadable([*_place(context), "experiment"], load, str(error))

    def _settings(self, context: dg.ComponentLoadContext) -> StoreSettings:
        if self.store is None:
            return StoreSettings.resolve(below=context.project_root)
        if Address.of(self.store) is not None:
            return StoreSettings.resolve(self.store)
        return StoreSettings.resolve((context.path / self.store).resolve())


def _place(context: dg.ComponentLoadContext) -> list[str]:
    """Return what no other component of the project has: its folder, and its place in the file."""
    folder, instance = context.component_path.file_path, context.component_path.instance_key
    if folder.is_relative_to(context.defs_module_path):
        folder = folder.relative_to(context.defs_module_path)
    return [*folder.parts[-3:], *([str(instance)] if instance else [])]  # 0 is the first of a file


CHECK = "can_be_loaded"


def unloadable(key: Sequence[str], load: Callable[[], object], problem: str) -> dg.Definitions:
    """Return an asset in place of those of an experiment; the rest of the project is as it was.

    A sensor that is on reports the failed check, so it is red without anybody running it.

    Args:
        key: of the asset.
        load: raises what is wrong with the experiment when the check runs.
        problem: what was wrong when the code location was loaded: one line.
    """
    plain = [re.sub(r"[^\w.-]", "_", part, flags=re.ASCII) for part in key]
    spec = dg.AssetSpec(plain, description=f"Cannot be loaded: {markdown(problem)}")
    name = plain_name("__".join(plain))

    @dg.asset_check(asset=spec.key, name=CHECK, description="The experiment can be loaded.")
    def check() -> dg.AssetCheckResult:
        try:
            load()
        except RagAssetsError as error:
            return dg.AssetCheckResult(passed=False, description=markdown(str(error)))
        return dg.AssetCheckResult(passed=True, description="Reload the code location.")

    @dg.sensor(
        name=f"{name}_{CHECK}",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=sensor_seconds(),
        description="Reports that the experiment cannot be loaded.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if context.cursor == problem:
            return dg.SkipReason(problem)
        failed = dg.AssetCheckEvaluation(
            asset_key=spec.key, check_name=CHECK, passed=False, description=markdown(problem)
        )
        return dg.SensorResult(asset_events=[failed], cursor=problem)

    return dg.Definitions(assets=[spec], asset_checks=[check], sensors=[sensor])
