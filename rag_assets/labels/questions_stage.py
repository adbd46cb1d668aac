"""``generated_questions``: what a language model asks about chunks, in front of the queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.outgoing import (
    NO_WORK,
    ExpectedWork,
    asked_config,
    asked_facts,
    llm_line,
    llm_work,
    needed,
)
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.question_generation import (
    QUESTIONS,
    GeneratedQuestions,
    generate_questions,
    question_requests,
)
from rag_assets.labels.question_options import QuestionOptions
from rag_assets.llm.completions import Estimate
from rag_assets.sources.stage import QUESTIONS_KEY
from rag_assets.store.artifacts import ArtifactKey

MAX_REASONS = 5
"""Reasons why chunks have no question that are told, those of most chunks."""


class GeneratedQuestionsStage(Stage):
    """Questions that a language model wrote from chunks of the documents.

    What was answered of a chunk is asked for once, so an edited document costs its own chunks.
    """

    name = "generated_questions"
    schema = QUESTIONS
    row = "One question that a language model wrote from a chunk, with the chunk's place."
    group = "data"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [QUESTIONS_KEY] if experiment.questions is not None else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("chunks", chunks_key(str(_options(experiment).chunking)))]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        options = _options(context.experiment)
        asked = asked_config(context.experiment, options.llm, options.question_prompt())
        return {**options.recipe_options(), **asked}

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        return [_options(experiment).llm]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        options = _options(context.experiment)
        chunks = _chosen(context, options)
        with context.completions("ask for questions", chunks.num_rows, options.llm) as completions:
            generated = generate_questions(chunks, options, completions)
            served = completions.served_models
        facts: dict[str, Any] = {"n_chunks": chunks.num_rows, "notes": _notes(generated)}
        if not generated.questions.num_rows:
            lost = "; ".join(facts["notes"]) or "none was chosen"
            problem = f"no question is left of {chunks.num_rows} chunks: {lost}"
            raise DataError(problem, file=context.experiment.source, key="questions")
        facts |= asked_facts(generated.n_unanswered, served)
        return TableProduct(generated.questions, facts, generated.failures)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        line = llm_line(context.experiment, _options(context.experiment).llm)
        if line is None:
            return NO_WORK
        if any(context.current(item.key) is None for item in self.inputs(context.experiment, key)):
            return llm_work([replace(line, questions=0)])
        needs = needed_requests(context)
        return llm_work([line.needing(needs, questions=0, passages=needs.calls)])


def needed_requests(context: StageContext) -> Estimate:
    """Return what the questions would need, the chunks being up to date; asks nothing."""
    options = _options(context.experiment)
    return needed(context, options.llm, question_requests(_chosen(context, options), options))


def _chosen(context: StageContext, options: QuestionOptions) -> pa.Table:
    return options.chosen_chunks(context.artifact(chunks_key(str(options.chunking))).table())


def _notes(generated: GeneratedQuestions) -> list[str]:
    """Return how many questions were dropped, and how many chunks have none, with the reasons."""
    dropped = [f"{n} dropped: {reason}" for reason, n in sorted(generated.counts.items())]
    reasons = Counter(generated.failures.values()).most_common(MAX_REASONS)
    return [*dropped, *(f"{n} chunks without a question: {reason}" for reason, n in reasons)]


def _options(experiment: Experiment) -> QuestionOptions:
    if experiment.questions is None:
        raise TypeError(f"{experiment.name} asks for no questions")
    return experiment.questions
