"""How long single queries take through an embedding model, past the vector cache.

A model is never loaded for a measurement alone, which would cost seconds. Single queries are timed
when the model was needed for others; their times are those of the model, and serve every ranking.
A server is asked for nothing twice: of the queries whose vectors are not known, the first of the
sample are sent one at a time and timed, the others together.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.pipeline.latency_sample import (
    BUDGET_SECONDS,
    Part,
    keep_part,
    kept_part,
    pipeline_sample,
    time_each,
    values_by_query,
)
from rag_assets.progress import no_progress
from rag_assets.retrievers.base import ORIGINAL, EmbeddingRetriever
from rag_assets.retrievers.workspace import Summed, Workspace
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

ENCODE = "encode"


def measure_encoding(
    pipeline: Pipeline, key: ArtifactKey, config: EmbeddingRetriever, variants: pa.Table
) -> None:
    """Time single queries through a model that is loaded anyway, past its cache."""
    texts = values_by_query(variants.column("query_id"), variants.column("text").to_pylist())
    sample = pipeline_sample(pipeline)
    if not sample or not config.encode_now(texts[sample[0]]):
        return
    part = Part(time_each(sample, lambda one: config.encode_now(texts[one])))
    _keep(pipeline, key, config, part)


def one_at_a_time(
    pipeline: Pipeline,
    key: ArtifactKey,
    config: EmbeddingRetriever,
    variants: pa.Table,
    workspace: Workspace,
) -> Workspace:
    """Have a server embed queries of the sample one at a time, as long as the budget lasts.

    Returns:
        A workspace for the others, which counts these with them.
    """
    rows = values_by_query(variants.column("query_id"), range(variants.num_rows))
    times: dict[str, float] = {}
    asked = Summed()
    started = time.perf_counter()
    for query_id in pipeline_sample(pipeline):
        before, known = time.perf_counter(), asked.known
        single = replace(workspace, measure=asked, progress=no_progress)
        config.encode(variants.take(pa.array(rows[query_id])), single)
        after = time.perf_counter()
        if asked.known == known:
            times[query_id] = 1000 * (after - before)
        if after - started > BUDGET_SECONDS:
            break
    earlier = encoding_part(pipeline, key["retriever"], config) or Part({}, None)
    cost = None if asked.cost is None or not times else asked.cost / len(times)
    part = Part({**earlier.times, **times}, earlier.cost if cost is None else cost)
    _keep(pipeline, key, config, part)
    return replace(workspace, measure=asked.and_then(workspace.measure))


def encoding_part(pipeline: Pipeline, retriever: str, config: EmbeddingRetriever) -> Part | None:
    """Return what single queries take through the model; None when it was never timed."""
    return kept_part(pipeline, ENCODE, _described(pipeline, retriever, config), retriever)


def _keep(pipeline: Pipeline, key: ArtifactKey, config: EmbeddingRetriever, part: Part) -> None:
    described = _described(pipeline, key["retriever"], config)
    keep_part(pipeline, ENCODE, described, part, asset=key.asset, retriever=key["retriever"])


def _described(pipeline: Pipeline, retriever: str, config: EmbeddingRetriever) -> str:
    """Return what the times belong to: a model, and how many texts it reads for a query."""
    query_set = pipeline.experiment.query_set_of(retriever)
    if query_set == ORIGINAL:
        return fingerprint(config.describe("query"))
    written = pipeline.experiment.query_sets[query_set].model_dump(mode="json")
    return fingerprint([config.describe("query"), written])
