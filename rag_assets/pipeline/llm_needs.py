"""What partitions would ask language models: the requests whose replies are not stored."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rag_assets.answers.generators.llm import LlmGenerator
from rag_assets.answers.stage import answers_alone, generator_of, questions_of
from rag_assets.chunking.index_texts import IndexText
from rag_assets.chunking.index_texts_stage import documents_shown
from rag_assets.chunking.stage import chunks_key
from rag_assets.chunking.written_texts import chunk_requests
from rag_assets.judges.llm import LlmJudge
from rag_assets.judges.verdicts_stage import judge_of, judged_items
from rag_assets.labels.generation.questions_stage import question_asking
from rag_assets.llm.completions import Estimate, estimate
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.prompted import PromptedQuerySet, requests_for
from rag_assets.query_sets.stage import DOCUMENT_FIELDS_KEY
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


def variants_needed(pipeline: Pipeline, key: ArtifactKey) -> Estimate | None:
    """Return what the variants of a query set need that are not stored.

    None where no model writes them, or where the queries, or the fields of the documents that the
    prompt names, are not up to date.
    """
    config = pipeline.experiment.query_sets[key["query_set"]]
    queries = pipeline.current(QUERIES_KEY)
    if queries is None or not isinstance(config, PromptedQuerySet):
        return None
    llm = pipeline.experiment.language_model(config.llm)
    if llm is None:
        return None
    fields = pipeline.current(DOCUMENT_FIELDS_KEY) if config.reads_fields else None
    if config.reads_fields and fields is None:
        return None
    strategy = config.prompted_for(fields.table() if fields is not None else None)
    requests = requests_for(queries.table(), strategy)
    return estimate(requests, llm.identity(), pipeline.replies, llm.limits())


def index_text_needed(pipeline: Pipeline, key: ArtifactKey, option: IndexText) -> Estimate | None:
    """Return what one kind of the texts by which chunks are found needs that is not stored.

    None where chunks or documents are not up to date.
    """
    llm = pipeline.experiment.language_model(option.llm)
    read = [chunks_key(key["chunking"]), DOCUMENTS_KEY]
    if llm is None or any(pipeline.current(one) is None for one in read):
        return None
    chunks = pipeline.artifact(read[0]).table()
    requests = chunk_requests(option, chunks, documents_shown(pipeline, option))
    return estimate(requests, llm.identity(), pipeline.replies, llm.limits())


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


def verdicts_needed(pipeline: Pipeline, key: ArtifactKey) -> Estimate | None:
    """Return what the verdicts of a partition need at most that are not stored.

    None where no model judges, or where what is judged is not up to date. A reply without a score
    is asked for once more: all that are not stored are taken for such.
    """
    judge = judge_of(pipeline.experiment, key)
    if not isinstance(judge, LlmJudge):
        return None
    llm = pipeline.experiment.language_model(judge.llm)
    read = STAGES[key.asset].inputs(pipeline.experiment, key)
    if llm is None or any(pipeline.current(item.key) is None for item in read):
        return None
    stored = partial(pipeline.replies.get, llm.identity())
    requests = judge.open_requests(judged_items(pipeline, key), stored)
    return estimate(requests, llm.identity(), pipeline.replies, llm.limits())


def questions_needed(pipeline: Pipeline, key: ArtifactKey) -> Estimate | None:
    """Return what generated questions need that is not stored.

    None where the chunks, or the documents that a filter reads, are not up to date.
    """
    options = pipeline.experiment.questions
    llm = pipeline.experiment.language_model(options.llm) if options is not None else None
    read = STAGES[key.asset].inputs(pipeline.experiment, key)
    if llm is None or any(pipeline.current(item.key) is None for item in read):
        return None
    return estimate(question_asking(pipeline), llm.identity(), pipeline.replies, llm.limits())
