"""What a partition costs before it is computed, as far as the store tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rag_assets.answers.generators.llm import LlmGenerator
from rag_assets.answers.stage import answers_alone, generator_of, questions_of
from rag_assets.chunking.stage import chunks_key
from rag_assets.experiment.query_sets import PromptedQuerySet
from rag_assets.llm.completions import Estimate, estimate
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.prompted import requests_for
from rag_assets.query_sets.stage import query_set_key
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

LLM_CALLS, TEXTS = "llm_calls", "texts"


def expected_work(pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, int] | None:
    """Return ``llm_calls`` or ``texts``, where the partition has any and they can be counted.

    ``llm_calls`` are requests to a language model whose answers are not in the cache. ``texts`` are
    those that an embedding retriever needs as vectors; the ones in the cache are not embedded.
    """
    if key.asset == "query_set_answers":
        return _calls(pipeline, key["query_set"])
    if key.asset == "answers":
        needs = answers_needed(pipeline, key)
        return {LLM_CALLS: needs.calls} if needs is not None else None
    experiment = pipeline.experiment
    match key.asset:
        case "embedding_index":
            read = chunks_key(experiment.chunking_of(key["retriever"]))
        case "embedding_queries":
            read = query_set_key(experiment.query_set_of(key["retriever"]))
        case _:
            return None
    artifact = pipeline.current(read)
    return {TEXTS: artifact.manifest.rows} if artifact is not None else None


def _calls(pipeline: Pipeline, query_set: str) -> Mapping[str, int] | None:
    queries = pipeline.current(QUERIES_KEY)
    config = pipeline.experiment.query_sets[query_set]
    if queries is None or not isinstance(config, PromptedQuerySet):
        return None
    llm = pipeline.experiment.language_model(config.llm)
    if llm is None:
        return None
    requests = requests_for(queries.table(), config.prompted())
    needs = estimate(requests, llm.identity(), pipeline.replies, llm.limits())
    return {LLM_CALLS: needs.calls}


def answers_needed(pipeline: Pipeline, key: ArtifactKey) -> Estimate | None:
    """Return what the answers of a partition need that are not stored.

    None where no model writes them, or where their contexts are not up to date.
    """
    generator = generator_of(pipeline.experiment, key)
    if not isinstance(generator, LlmGenerator):
        return None
    llm = pipeline.experiment.language_model(generator.llm)
    read = STAGES["answers"].inputs(pipeline.experiment, key)
    if llm is None or any(pipeline.current(item.key) is None for item in read):
        return None
    alone = answers_alone(pipeline.experiment, key)
    requests = generator.requests(questions_of(pipeline, key), alone=alone)
    return estimate(requests, llm.identity(), pipeline.replies, llm.limits())
