"""``answers[answerer]``: what a generator answers from each question's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.answers.contexts_stage import (
    answer_contexts_key,
    answerer_of,
    has_context,
    units_by_query,
)
from rag_assets.answers.generators import (
    Generator,
    GeneratorAnswer,
    GeneratorAnswers,
    LlmGenerator,
    Question,
    SearchSession,
)
from rag_assets.answers.options import NONE
from rag_assets.code_versions.closure import Root
from rag_assets.engine.outgoing import NO_WORK, ExpectedWork, llm_line, llm_work, needed
from rag_assets.engine.recipe import UNANSWERED, Input, Recipe
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.contexts_stage import document_texts
from rag_assets.evaluation.units import text_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.stage import SERVED_MODELS
from rag_assets.schemas import ANSWERS
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey


class Answers(Stage):
    """The answers of one answerer to all questions.

    Its recipe has the texts of the contexts in their order, not their places: a document that is
    edited elsewhere asks nothing again.
    """

    name = "answers"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    schema = ANSWERS
    row = "The answer of one answerer to one question, or why there is none."
    group = "answers"
    config_of_inputs: ClassVar[frozenset[str]] = frozenset({"failed"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [answers_key(key) for key in experiment.answer_cells]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return generator_of(experiment, key).code_roots()

    def kinds_of(self, experiment: Experiment) -> frozenset[str]:
        used = {options.generator for options in experiment.answerers.values()}
        asks = any(isinstance(experiment.generators[name], LlmGenerator) for name in used)
        return self.kinds | {"openai"} if asks else self.kinds

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        found = [Input("questions", QUERIES_KEY, "text")]
        if _reads_context(experiment, key):
            found.append(Input("contexts", answer_contexts_key(key["answerer"]), "texts"))
        return found

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        generator = generator_of(context.experiment, key)
        llm = None
        if isinstance(generator, LlmGenerator):
            llm = context.experiment.language_model(generator.llm)
        failed = _failed_before(context, key)
        return {
            "generator": dict(generator.described(alone=answers_alone(context.experiment, key))),
            **({"llm": dict(llm.identity())} if llm is not None else {}),
            **({"failed": dict(failed)} if failed else {}),
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        files = generator_of(context.experiment, key).files()
        return {f"file.{option}": context.file_digest(file) for option, file in files.items()}

    def recipe(self, context: StageContext, key: ArtifactKey) -> Recipe | None:
        own = super().recipe(context, key)
        if own is None or not isinstance(generator_of(context.experiment, key), LlmGenerator):
            return own
        return context.attempts.numbered(own)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        failed = _failed_before(context, key)
        questions = [q for q in questions_of(context, key) if q.query_id not in failed]
        generator = generator_of(context.experiment, key)
        label = f"answer by {key['answerer']}"
        alone = answers_alone(context.experiment, key)
        tools = SearchSession(partial(context.completions, label), alone)
        found = generator.answer(questions, tools)
        ids = [question.query_id for question in questions]
        answers = dict(zip(ids, found.answers, strict=True))
        answers |= {one: GeneratorAnswer(None, error=why) for one, why in failed.items()}
        return _product(answers, found)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        experiment, generator = context.experiment, generator_of(context.experiment, key)
        if not isinstance(generator, LlmGenerator):
            return NO_WORK
        line, queries = llm_line(experiment, generator.llm), context.current(QUERIES_KEY)
        if line is None or queries is None:
            return llm_work([line] if line is not None else [])
        n_queries = queries.manifest.rows
        if any(context.current(item.key) is None for item in self.inputs(experiment, key)):
            top_k = experiment.answer_cells[key["answerer"]].top_k
            most = n_queries * top_k if top_k is not None else None
            line = replace(line, questions=n_queries, requests=n_queries, passages=most)
            return llm_work([line])
        alone = answers_alone(experiment, key)
        requests = generator.requests(questions_of(context, key), alone=alone)
        needs = needed(context, generator.llm, requests)
        contexts = context.current(answer_contexts_key(key["answerer"]))
        passages = contexts.manifest.rows if contexts is not None and needs.calls else 0
        n_asked = min(needs.calls, n_queries)
        return llm_work([line.needing(needs, questions=n_asked, passages=passages)])


def _product(answers: Mapping[str, GeneratorAnswer], found: GeneratorAnswers) -> TableProduct:
    """Return the table of all answers; what failed is named by question."""
    failures = {one: answer.error for one, answer in answers.items() if answer.error is not None}
    unanswered = sum(answer.unanswered for answer in answers.values())
    facts: dict[str, Any] = {"n_failed": len(failures), "notes": list(found.notes)}
    if unanswered:
        facts[UNANSWERED] = unanswered
    if found.served_models:
        facts[SERVED_MODELS] = list(found.served_models)
    return TableProduct(_table(answers), facts, failures)


def _table(answers: Mapping[str, GeneratorAnswer]) -> pa.Table:
    rows: list[dict[str, object]] = []
    for query_id in sorted(answers):
        answer = answers[query_id]
        row = {**answer._asdict(), "query_id": query_id, "answer": answer.text}
        if answer.spans is not None:
            names = ("unit", "start", "end")
            row["spans"] = [dict(zip(names, span, strict=True)) for span in answer.spans]
        rows.append({name: row[name] for name in ANSWERS.arrow().names})
    return ANSWERS.from_rows(rows)


def questions_of(context: StageContext, key: ArtifactKey) -> list[Question]:
    """Return the questions of an answerer with the texts of their contexts, as they are asked."""
    queries = context.artifact(QUERIES_KEY).table()
    texts: dict[str, tuple[str, ...]] = {}
    tokens: dict[str, int] = {}
    if _reads_context(context.experiment, key):
        documents = document_texts(context)
        contexts = context.artifact(answer_contexts_key(key["answerer"])).table()
        for query_id, units in units_by_query(contexts).items():
            places = [(unit["document_id"], unit["start"], unit["end"]) for unit in units]
            texts[query_id] = tuple(text_of(documents, place) for place in places)
            tokens[query_id] = sum(unit["n_tokens"] for unit in units)
    pairs = zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True)
    return [
        Question(query_id, text, texts.get(query_id, ()), tokens.get(query_id, 0))
        for query_id, text in pairs
    ]


def _failed_before(context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
    """Return the questions on which the retriever failed, each with the reason."""
    if not _reads_context(context.experiment, key):
        return {}
    contexts = context.current(answer_contexts_key(key["answerer"]))
    return contexts.manifest.failures if contexts is not None else {}


def _reads_context(experiment: Experiment, key: ArtifactKey) -> bool:
    options, _ = answerer_of(experiment, key)
    return has_context(options) and experiment.generators[options.generator].reads_context


def answers_alone(experiment: Experiment, key: ArtifactKey) -> bool:
    """Return whether an answerer has no context by intention."""
    return answerer_of(experiment, key)[0].context == NONE


def generator_of(experiment: Experiment, key: ArtifactKey) -> Generator:
    """Return the generator of a partition named by an answerer."""
    return experiment.generators[answerer_of(experiment, key)[0].generator]


def answers_key(answerer: str) -> ArtifactKey:
    """Return the answers of one answerer at its cut-off, such as ``plain@5``."""
    return ArtifactKey.of("answers", answerer=answerer)
