"""Resources of a Dagster project: where results are kept, and tables as inputs of its own assets.

Without `from __future__ import annotations`: Dagster reads the annotations of the fields itself.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import dagster as dg
import pyarrow as pa
from pydantic import Field

from rag_assets.assets.names import artifact_key
from rag_assets.pipeline.stages import STAGES
from rag_assets.pipeline.stored_evaluation import concatenated
from rag_assets.store.artifacts import Artifact, ArtifactStore
from rag_assets.store.settings import StoreSettings

_STORE = "The folder that results are kept in, or s3://BUCKET/PREFIX; default: RAG_ASSETS_STORE."
_STATE = "A local folder for locks and the warehouse; default: `store`, or RAG_ASSETS_STATE_DIR."


class RagAssets(dg.ConfigurableResource[Any]):
    """Where results are kept, said once for a project; what is left out the environment says.

    ``build_defs(path, store=RagAssets(store="results"))`` uses it while a code location is loaded,
    and an asset of the project asks for it as any resource, to pass ``settings().place`` on as the
    ``store`` of a function of :mod:`rag_assets`.
    """

    store: str | None = Field(default=None, description=_STORE)
    state_dir: str | None = Field(default=None, description=_STATE)

    def settings(self) -> StoreSettings:
        """Return the two places.

        Raises:
            UsageError: the store is neither a folder nor an address.
            StoreError: a folder is none, or cannot be.
        """
        fixed = self.process_config_and_initialize()  # a field may be a dg.EnvVar
        if fixed.store is None or fixed.state_dir is None:
            return StoreSettings.resolve(fixed.store)
        return StoreSettings.at(fixed.store, fixed.state_dir)


class ParquetIOManager(dg.ConfigurableIOManager, RagAssets):
    """Gives the tables of an experiment to other assets, in the form that their annotation names.

    The forms are ``pyarrow.Table`` (also without an annotation), ``pandas.DataFrame``,
    ``polars.DataFrame`` and ``duckdb.DuckDBPyRelation``; an index is a folder, ``pathlib.Path``.
    Several partitions are one table with a column for each dimension; annotated as ``dict[str,
    ...]``, they are one table for each partition key. The table is the one that the latest
    materialization reported.
    """

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Refuse: the assets of an experiment write their tables themselves.

        Raises:
            DagsterInvariantViolationError: always.
        """
        name = context.asset_key.to_user_string() if context.has_asset_key else context.name
        problem = f"{name}: this IO manager only reads; give the asset another `io_manager_key`"
        raise dg.DagsterInvariantViolationError(problem)

    def load_input(self, context: dg.InputContext) -> Any:  # noqa: ANN401 (what is annotated)
        """Return the table or tables of an asset of an experiment.

        Raises:
            Failure: it was never materialized, its table is gone or damaged, or the annotation
                names no form that there is.
        """
        name, kind = context.asset_key.to_user_string(), context.dagster_type.typing_type
        stage = STAGES.get(context.asset_key.path[-1])
        if stage is None:
            raise dg.Failure(f"{name} is no asset of an experiment", allow_retries=False)
        settings = self.settings()
        if settings.remote is not None:
            settings.remote.refresh()
        store = ArtifactStore(settings.store, settings.locks, settings.remote)
        partitions = context.asset_partition_keys if context.has_asset_partitions else [None]
        artifacts = {
            partition: _latest(context.instance, context.asset_key, partition, store, stage.name)
            for partition in partitions
        }
        by_partition = get_origin(kind) is dict
        form = _form(get_args(kind)[1] if by_partition else kind, name)
        if stage.schema is None and form is not Path:
            problem = f"{name} is a folder, not a table: annotate the input as pathlib.Path"
            raise dg.Failure(problem, allow_retries=False)
        if form is Path:
            folders = {partition: artifact.folder for partition, artifact in artifacts.items()}
            return folders if by_partition else next(iter(folders.values()))
        if by_partition:
            return {partition: form(artifact.table()) for partition, artifact in artifacts.items()}
        keys = [artifact_key(stage, partition) for partition in partitions]
        tables = [artifact.table() for artifact in artifacts.values()]
        rows = [(dict(key.partition), table) for key, table in zip(keys, tables, strict=True)]
        return form(concatenated(rows) if context.has_asset_partitions else tables[0])


parquet_io_manager = ParquetIOManager
"""Its name in :mod:`rag_assets`, in the style of Dagster's integrations."""


def _latest(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partition: str | None,
    store: ArtifactStore,
    stage: str,
) -> Artifact:
    """Return what the latest materialization of a partition reported."""
    name = " ".join(filter(None, (key.to_user_string(), partition)))
    wanted = dg.AssetRecordsFilter(key, asset_partitions=[partition] if partition else None)
    records = instance.fetch_materializations(wanted, limit=1).records
    event = records[0].asset_materialization if records else None
    if event is None or "fingerprint" not in event.metadata:
        problem = f"{name} was not materialized yet; run the job that evaluates the experiment"
        raise dg.Failure(problem, allow_retries=False)
    artifact = store.find(stage, str(event.metadata["fingerprint"].value))
    if artifact is None:
        problem = f"{name} is not in the store {store.root}; run the job that evaluates it"
        raise dg.Failure(problem, allow_retries=False)
    return artifact


def _form(kind: Any, name: str) -> Callable[[pa.Table], Any] | type[Path]:  # noqa: ANN401
    """Return what makes the annotated form of a table; nothing is imported for the others."""
    if kind is Path:
        return Path
    forms: Mapping[tuple[str, str], Callable[[pa.Table], Any]] = {
        ("pyarrow", "Table"): lambda table: table,
        ("pandas", "DataFrame"): lambda table: table.to_pandas(),
        ("polars", "DataFrame"): _polars,
        ("duckdb", "DuckDBPyRelation"): _relation,
    }
    if kind is Any or kind is object:
        return forms["pyarrow", "Table"]
    package = getattr(kind, "__module__", "").lstrip("_").partition(".")[0]
    form = forms.get((package, getattr(kind, "__name__", "")))
    if form is None:
        allowed = ", ".join(f"{package}.{form}" for package, form in forms)
        problem = f"{name} cannot be loaded as {kind!r}; allowed: {allowed}, or dict[str, ...]"
        raise dg.Failure(problem, allow_retries=False)
    return form


def _polars(table: pa.Table) -> Any:  # noqa: ANN401 (an optional library's)
    import polars

    return polars.from_arrow(table)


def _relation(table: pa.Table) -> Any:  # noqa: ANN401 (its connection lives as long as it does)
    import duckdb

    return duckdb.connect().from_arrow(table)
