"""What a Dagster instance says about the tiny experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from rag_assets.assets.build import build_assets
from rag_assets.assets.evaluate import evaluate
from rag_assets.assets.evaluation_steps import EvaluationSummary
from rag_assets.assets.instance import open_instance
from rag_assets.assets.names import artifact_key, asset_key, partition_key
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from tests.tiny_experiment import Tiny

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def short_name(asset: str, partition: str | None) -> str:
    """Return ``metrics/bm25/5`` for Dagster's names."""
    key = artifact_key(STAGES[asset], partition)
    return "/".join([asset, *(value for _, value in key.partition)])


def definitions(tiny: Tiny) -> dg.Definitions:
    """Return what a code location would load; each run opens a pipeline of its own."""
    assets = build_assets(tiny.pipeline().experiment, tiny.settings)
    return dg.Definitions(assets=assets, executor=dg.in_process_executor)


def evaluate_now(
    tiny: Tiny, retrievers: Sequence[str] = (), top_k: Sequence[int] = ()
) -> EvaluationSummary:
    pipeline = tiny.pipeline()
    return evaluate(pipeline, Selection.of(pipeline.experiment, retrievers, top_k))


def statuses(tiny: Tiny) -> dict[str, str]:
    """Return MISSING, STALE or FRESH for every partition, as the Dagster UI computes it."""
    graph = definitions(tiny).resolve_asset_graph()
    found: dict[str, str] = {}
    with open_instance(tiny.settings) as instance:
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        for asset in sorted(graph.get_all_asset_keys()):
            partitions = graph.get(asset).partitions_def
            for partition in partitions.get_partition_keys() if partitions else [None]:
                name = short_name(asset.path[-1], partition)
                found[name] = resolver.get_status(asset, partition).value
    return found


def not_fresh(tiny: Tiny) -> dict[str, str]:
    return {name: status for name, status in statuses(tiny).items() if status != "FRESH"}


def materializations(tiny: Tiny, asset: str) -> list[dg.AssetMaterialization]:
    key = asset_key(str(tiny.config["name"]), asset)
    with open_instance(tiny.settings) as instance:
        records = instance.fetch_materializations(key, limit=10_000).records
    found = [record.event_log_entry.asset_materialization for record in records]
    return [event for event in found if event is not None]


def counts(tiny: Tiny) -> Counter[str]:
    experiment = str(tiny.config["name"])
    found: Counter[str] = Counter()
    with open_instance(tiny.settings) as instance:
        for stage in tiny.pipeline().stages():
            key = asset_key(experiment, stage.name)
            records = instance.fetch_materializations(key, limit=10_000).records
            found.update(short_name(stage.name, record.partition_key) for record in records)
    return found


def n_runs(tiny: Tiny) -> int:
    with open_instance(tiny.settings) as instance:
        return int(instance.get_runs_count())


def latest(tiny: Tiny, key: ArtifactKey) -> dg.AssetMaterialization:
    return next(
        event
        for event in materializations(tiny, key.asset)
        if event.partition == partition_key(key)
    )


def run_as_ui(
    tiny: Tiny,
    assets: Sequence[str],
    *,
    partition: str | None = None,
    between: tuple[str, str] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run assets as the UI does, without the driver's tags."""
    tags = {}
    if between is not None:
        tags["dagster/asset_partition_range_start"] = between[0]
        tags["dagster/asset_partition_range_end"] = between[1]
    job = definitions(tiny).resolve_implicit_global_asset_job_def()
    with open_instance(tiny.settings) as instance:
        return job.execute_in_process(
            instance=instance,
            asset_selection=[asset_key(str(tiny.config["name"]), name) for name in assets],
            partition_key=partition,
            tags=tags,
            run_config=QUIET,
            raise_on_error=False,
        )
