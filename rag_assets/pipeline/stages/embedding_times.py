"""How long single queries take through an embedding model, past the vector cache.

A model is never loaded for a measurement alone, which would cost seconds. Single queries are timed
when the model was needed for others; their times are those of the model, and serve every ranking.
"""

from __future__ import annotations

import pyarrow as pa

from rag_assets.pipeline.latency_sample import (
    percentiles,
    seconds_of,
    time_each,
    timed_queries,
    values_by_query,
)
from rag_assets.pipeline.stage_context import StageContext, Times
from rag_assets.retrievers.base import EmbeddingRetriever
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
    times = time_each(sample, lambda one: config.encode_now(texts[one]))
    context.measurements.add(
        ENCODE,
        fingerprint(config.describe("query")),
        seconds_of(times),
        len(times),
        **percentiles(times),
        asset=key.asset,
        retriever=key["retriever"],
        cached=False,
    )


def encoding_times(
    context: StageContext, retriever: str, config: EmbeddingRetriever
) -> list[Times] | None:
    """Return the times of single queries through the model; None when it was never timed."""
    described = fingerprint(config.describe("query"))
    found = context.measurements.find(ENCODE, described, retriever, cached=False)
    return [found["samples_ms"]] if found and found["samples_ms"] else None
