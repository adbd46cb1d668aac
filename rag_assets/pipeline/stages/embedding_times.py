"""What embedding takes: of many texts at once, and of single queries past the vector cache.

A model is never loaded for a measurement alone, which would cost seconds. Single queries are timed
when the model was needed for others; their times are those of the model, and serve every ranking.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.embedding.encoder import Encoder, Kind
from rag_assets.embedding.unit_vectors import Vectors
from rag_assets.errors import MissingArtifact
from rag_assets.pipeline.latency_sample import (
    Times,
    percentiles,
    pipeline_sample,
    seconds_of,
    time_each,
    values_by_query,
)
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

EMBED = "embed"
ENCODE = "encode"


def measured_vectors(
    pipeline: Pipeline, key: ArtifactKey, encoder: Encoder, texts: Sequence[str], kind: Kind
) -> Vectors:
    """Embed the texts of one artifact and keep how many were new, and what they took.

    The seconds include loading the model; equal texts count once.

    Raises:
        MissingArtifact: an input of the artifact is not in the store.
    """
    recipe = pipeline.recipe(key)
    if recipe is None:
        raise MissingArtifact(f"an input of {key} is not in the store")
    n_new = 0
    what = "chunks" if kind == "document" else "queries"
    retriever = key["retriever"]
    with pipeline.progress(f"embed {what} for {retriever}", len(texts)) as advance:

        def count(done: int, total: int) -> None:
            nonlocal n_new
            n_new = total
            advance(done, total)

        started = time.perf_counter()
        vectors = encoder.encode(texts, kind=kind, progress=count)
        seconds = time.perf_counter() - started
    amounts = {False: (seconds, n_new), True: (None, len(set(texts)) - n_new)}
    for cached, (took, amount) in amounts.items():
        pipeline.measurements.add(
            EMBED,
            recipe.fingerprint,
            took,
            amount,
            asset=key.asset,
            retriever=retriever,
            cached=cached,
        )
    return vectors


def measure_encoding(
    pipeline: Pipeline, key: ArtifactKey, encoder: Encoder, variants: pa.Table
) -> None:
    """Time single queries through a model that is loaded anyway, past its cache."""
    if not encoder.is_loaded:
        return
    texts = values_by_query(variants.column("query_id"), variants.column("text").to_pylist())
    sample = pipeline_sample(pipeline)
    if not sample:
        return
    times = time_each(sample, lambda one: encoder.embed_now(texts[one], kind="query"))
    pipeline.measurements.add(
        ENCODE,
        fingerprint(encoder.describe("query")),
        seconds_of(times),
        len(times),
        **percentiles(times),
        asset=key.asset,
        retriever=key["retriever"],
        cached=False,
    )


def encoding_times(pipeline: Pipeline, retriever: str, encoder: Encoder) -> list[Times] | None:
    """Return the times of single queries through the model; None when it was never timed."""
    described = fingerprint(encoder.describe("query"))
    found = pipeline.measurements.find(ENCODE, described, retriever, cached=False)
    return [found["samples_ms"]] if found and found["samples_ms"] else None
