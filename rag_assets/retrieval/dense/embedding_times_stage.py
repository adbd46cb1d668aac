"""How long single queries take through an embedding model, past the vector cache.

A model is never loaded for a measurement alone, which would cost seconds. Single queries are timed
when the model was needed for others; their times are those of the model, and serve every ranking.
A server is asked for nothing twice: of the queries whose vectors are not known, the first of the
sample are sent one at a time and timed, the others together.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa

from rag_assets.engine.latency_sample import (
    BUDGET_SECONDS,
    keep_part,
    kept_part,
    time_each,
    timed_queries,
    values_by_query,
)
from rag_assets.engine.stage_context import Part, StageContext
from rag_assets.progress import no_progress
from rag_assets.retrieval.base import ORIGINAL, EmbeddingRetriever
from rag_assets.retrieval.workspace import Summed, Workspace
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint

ENCODE = "encode"


def measure_encoding(
    context: StageContext, key: ArtifactKey, config: EmbeddingRetriever, variants: pa.Table
) -> None:
    """Time single queries through a model that is loaded anyway, past its cache."""
    texts = values_by_query(variants.column("query_id"), variants.column("text").to_pylist())
    sample = timed_queries(context)
    if not sample or not config.encode_now(texts[sample[0]]):
        return
    part = Part(time_each(sample, lambda one: config.encode_now(texts[one])))
    _keep(context, key, config, part)


def one_at_a_time(
    context: StageContext,
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
    for query_id in timed_queries(context):
        before, known = time.perf_counter(), asked.known
        single = replace(workspace, measure=asked, progress=no_progress)
        config.encode(variants.take(pa.array(rows[query_id])), single)
        after = time.perf_counter()
        if asked.known == known:
            times[query_id] = 1000 * (after - before)
        if after - started > BUDGET_SECONDS:
            break
    earlier = encoding_part(context, key["retriever"], config) or Part({}, None)
    cost = None if asked.cost is None or not times else asked.cost / len(times)
    part = Part({**earlier.times, **times}, earlier.cost if cost is None else cost)
    _keep(context, key, config, part)
    return replace(workspace, measure=asked.and_then(workspace.measure))


def encoding_part(context: StageContext, retriever: str, config: EmbeddingRetriever) -> Part | None:
    """Return what single queries take through the model; None when it was never timed."""
    return kept_part(context, ENCODE, _described(context, retriever, config))


def _keep(context: StageContext, key: ArtifactKey, config: EmbeddingRetriever, part: Part) -> None:
    described = _described(context, key["retriever"], config)
    keep_part(context, ENCODE, described, part, asset=key.asset, retriever=key["retriever"])


def _described(context: StageContext, retriever: str, config: EmbeddingRetriever) -> str:
    """Return what the times belong to: a model, and how many texts it reads for a query."""
    query_set = context.experiment.query_set_of(retriever)
    if query_set == ORIGINAL:
        return fingerprint(config.describe("query"))
    written = context.experiment.query_sets[query_set].model_dump(mode="json")
    return fingerprint([config.describe("query"), written])
