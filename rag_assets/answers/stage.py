"""``answers[answerer]``: what a generator answers from each question's context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.answers.contexts_stage import (
    answer_contexts_key,
    answerer_of,
    contexts_with_texts,
    has_context,
)
from rag_assets.answers.generators import Generator, GeneratorAnswer, LlmGenerator, Question
from rag_assets.answers.options import NONE
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.outgoing import (
    NO_WORK,
    ExpectedWork,
    asked_facts,
    llm_line,
    llm_work,
    needed,
)
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.llm.completions import ModelSession
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
        return [root_of(type(generator_of(experiment, key)))]

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        generator = generator_of(experiment, key)
        return [generator.llm] if isinstance(generator, LlmGenerator) else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        found = [Input("questions", QUERIES_KEY, "text")]
        if _reads_context(experiment, key):
            found.append(Input("contexts", answer_contexts_key(key["answerer"]), "texts"))
        return found

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment, failed = context.experiment, _failed_before(context, key)
        generator = generator_of(experiment, key)
        llm = next(map(experiment.language_model, self.models(experiment, key)), None)
        return {
            "generator": dict(generator.described(alone=answers_alone(experiment, key))),
            **({"llm": dict(llm.identity())} if llm is not None else {}),
            **({"failed": dict(failed)} if failed else {}),
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        files = generator_of(context.experiment, key).files()
        return {f"file.{option}": context.file_digest(file) for option, file in files.items()}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        failed = _failed_before(context, key)
        questions = [q for q in questions_of(context, key) if q.query_id not in failed]
        session = ModelSession(partial(context.completions, f"answer by {key['answerer']}"))
        given = generator_of(context.experiment, key).answers(questions, session)
        ids = [question.query_id for question in questions]
        answers = dict(zip(ids, given, strict=True))
        answers |= {one: GeneratorAnswer(None, error=why) for one, why in failed.items()}
        failures = {one: answer.error for one, answer in answers.items() if answer.error}
        unanswered = sum(answer.unanswered for answer in answers.values())
        facts = {"n_failed": len(failures), "notes": session.notes}
        facts |= asked_facts(unanswered, session.served_models)
        return TableProduct(_table(answers), facts, failures)

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
        needs = needed(context, generator.llm, generator.requests(questions_of(context, key)))
        contexts = context.current(answer_contexts_key(key["answerer"]))
        passages = contexts.manifest.rows if contexts is not None and needs.calls else 0
        n_asked = min(needs.calls, n_queries)
        return llm_work([line.needing(needs, questions=n_asked, passages=passages)])


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
    reads = _reads_context(context.experiment, key)
    contexts = (contexts_with_texts(context, key) if reads else None) or {}
    alone = answers_alone(context.experiment, key)
    questions = []
    for query_id, text in zip(*(queries[c].to_pylist() for c in ("query_id", "text")), strict=True):
        units = contexts.get(query_id, ())
        texts = None if alone else tuple(unit.text for unit in units)
        questions.append(Question(query_id, text, texts, sum(unit.n_tokens for unit in units)))
    return questions


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
