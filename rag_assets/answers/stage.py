"""``answers`` and ``answer_metrics``: what a generator answers, and how good that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answer_text import Language
from rag_assets.answers.cases import ANSWER_METRICS, Contexts, Evidence, Gold, cases_of
from rag_assets.answers.contexts_stage import (
    answer_contexts_key,
    answerer_of,
    context_input,
    contexts_with_texts,
)
from rag_assets.answers.generators import Generator, GeneratorAnswer, LlmGenerator, Question
from rag_assets.answers.metrics import METRICS, metric_code
from rag_assets.answers.nuggets import read_nuggets
from rag_assets.answers.own_generators import OwnGenerator
from rag_assets.called.asked import ALWAYS, AskedOptions
from rag_assets.called.code import require_allowed
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.outgoing import (
    NO_WORK,
    ExpectedWork,
    asked_facts,
    generator_line,
    llm_line,
    llm_work,
    needed,
)
from rag_assets.engine.recipe import Input, Recipe
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.query_facts import answerable_queries
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.llm.completions import Limits, ModelSession, estimate
from rag_assets.retrieval.external.base import reads_its_own
from rag_assets.schemas import ANSWERS, QRELS, column_values
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

SECONDS = "answer_seconds"
"""What is measured: seconds of asking for an answer, when it was asked for."""


class Answers(Stage):
    """The answers of one answerer to all questions.

    Its recipe has the texts of the contexts in their order, not their places: a document that is
    edited elsewhere asks nothing again.
    """

    name = "answers"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    made_for = "answer_cells"
    schema = ANSWERS
    row = "The answer of one answerer to one question, or why there is none."
    group = "answers"
    config_of_inputs: ClassVar[frozenset[str]] = frozenset({"failed"})

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return [root_of(type(generator_of(experiment, key)))]

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        generator = generator_of(experiment, key)
        return [generator.llm] if isinstance(generator, LlmGenerator) else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        inputs = [Input("questions", QUERIES_KEY, "text")]
        if _reads_context(experiment, key):
            inputs.append(Input("contexts", answer_contexts_key(key["answerer"]), "texts"))
        return inputs

    def recipe(self, context: StageContext, key: ArtifactKey) -> Recipe | None:
        recipe = super().recipe(context, key)
        is_own = isinstance(generator_of(context.experiment, key), OwnGenerator)
        return context.attempts.numbered(recipe) if is_own and recipe is not None else recipe

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment, failed = context.experiment, _failed_before(context, key)
        generator = generator_of(experiment, key)
        if isinstance(generator, OwnGenerator):
            identity = dict(generator.identity(context.revisions.of(generator)))
            return {"asked": identity, **({"failed": dict(failed)} if failed else {})}
        llm = next(map(experiment.language_model, self.models(experiment, key)), None)
        return {
            "generator": dict(generator.described(alone=answers_alone(experiment, key))),
            **({"llm": dict(llm.identity())} if llm is not None else {}),
            **({"failed": dict(failed)} if failed else {}),
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        generator = generator_of(context.experiment, key)
        files = generator.files() if not isinstance(generator, OwnGenerator) else {}
        return {f"file.{option}": context.file_digest(file) for option, file in files.items()}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        failed = _failed_before(context, key)
        questions = [q for q in questions_of(context, key) if q.query_id not in failed]
        generator = generator_of(context.experiment, key)
        session = session_of(context, f"answer by {key['answerer']}", generator)
        given = generator.answers(questions, session)
        ids = [question.query_id for question in questions]
        answers = _numbered(context, key, dict(zip(ids, given, strict=True)), session)
        answers |= {query: GeneratorAnswer(None, error=why) for query, why in failed.items()}
        failures = {query: answer.error for query, answer in answers.items() if answer.error}
        unanswered = sum(answer.unanswered for answer in answers.values())
        facts = {"n_failed": len(failures), "notes": session.notes}
        facts |= asked_facts(unanswered, session.served_models)
        times = [answer.seconds for answer in answers.values() if answer.seconds is not None]
        recipe = context.recipe(key) if times else None
        if recipe is not None:
            mean = sum(times) / len(times)
            context.measurements.add(SECONDS, recipe.fingerprint, mean, asset=key.asset)
        return TableProduct(_table(answers), facts, failures)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        experiment, generator = context.experiment, generator_of(context.experiment, key)
        options = answerer_of(experiment, key)[0]
        if isinstance(generator, OwnGenerator):
            if reads_its_own(options, experiment.retrievers):
                return NO_WORK  # its contexts come with its answers, and are asked for before
            is_ready = all(context.current(item.key) for item in self.inputs(experiment, key))
            questions = questions_of(context, key) if is_ready else None
            top_k = experiment.answer_cells[key["answerer"]].top_k
            return own_work(context, options.generator, questions, top_k)
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


def session_of(context: StageContext, label: str, generator: Generator) -> ModelSession:
    """Return what a generator may use.

    Raises:
        UsageError: it names code of somebody else, which is not allowed to run.
    """
    session = ModelSession(partial(context.completions, label))
    if not isinstance(generator, AskedOptions):
        return session
    if generator.runs_code:
        require_allowed(context.experiment.source, allowed=context.allow_code)
    return replace(session, revision=context.revisions.of(generator))


def own_work(
    context: StageContext, name: str, questions: Sequence[Question] | None, top_k: int | None
) -> ExpectedWork:
    """Return what code or a server of the user's own is asked at most.

    Args:
        context: of the experiment.
        name: of the generator.
        questions: with their contexts; None: these are not known yet.
        top_k: units of a context, at most; None: it has none.
    """
    generator, queries = context.experiment.generators[name], context.current(QUERIES_KEY)
    line = generator_line(context.experiment, name)
    if line is None or queries is None or not isinstance(generator, OwnGenerator):
        return ExpectedWork(requests=(line,) if line is not None else ())
    calls, n_queries = queries.manifest.rows, queries.manifest.rows
    if questions is not None and generator.revision != ALWAYS:
        identity = generator.identity(context.revisions.of(generator))
        calls = estimate(generator.requests(questions), identity, context.replies, Limits()).calls
    passages = calls * (top_k or 0)
    line = replace(line, questions=min(calls, n_queries), requests=calls, passages=passages)
    return ExpectedWork(requests=(line,))


def _numbered(
    context: StageContext,
    key: ArtifactKey,
    answers: dict[str, GeneratorAnswer],
    session: ModelSession,
) -> dict[str, GeneratorAnswer]:
    """Return answers without citations where these number other units than the context has.

    Several texts of one document are one unit where documents are judged.
    """
    experiment = context.experiment
    if not reads_its_own(answerer_of(experiment, key)[0], experiment.retrievers):
        return answers
    contexts = contexts_with_texts(context, key) or {}
    other = {
        query_id
        for query_id, answer in answers.items()
        if answer.cited and answer.n_contexts != len(contexts.get(query_id, ()))
    }
    if other:
        problem = "cite texts of which several are one unit of the context, or that are cut"
        session.notes.append(f"{len(other)} answers {problem}; these citations do not count")
    return {
        n: answer._replace(cited=None) if n in other else answer for n, answer in answers.items()
    }


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
    for query_id, text in column_values(queries, "query_id", "text"):
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
    return options.has_context and experiment.generators[options.generator].reads_context


def answers_alone(experiment: Experiment, key: ArtifactKey) -> bool:
    """Return whether an answerer is given no context by intention."""
    return experiment.is_asked_alone(experiment.answer_cells[key["answerer"]].name)


def generator_of(experiment: Experiment, key: ArtifactKey) -> Generator:
    """Return the generator of a partition named by an answerer."""
    return experiment.generators[answerer_of(experiment, key)[0].generator]


def answers_key(answerer: str) -> ArtifactKey:
    """Return the answers of one answerer at its cut-off, such as ``plain@5``."""
    return ArtifactKey.of("answers", answerer=answerer)


class AnswerMetricsStage(Stage):
    """Every metric of an answerer's answers, question by question."""

    name = "answer_metrics"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    made_for = "answer_cells"
    schema = ANSWER_METRICS
    row = "One question of one answerer: every metric of its answer."
    group = "answers"

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return metric_code(metric_names(experiment))

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("answers", answers_key(key["answerer"])),
            *context_input(experiment, key),
            Input("queries", QUERIES_KEY, "ids"),
            Input("golds", QUERY_FACTS_KEY, "answers"),
            *([Input("qrels", QRELS_KEY)] if experiment.has_qrels else []),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "metrics": list(metric_names(experiment)),
            "language": experiment.config.answer_metrics.language,
            "judge": experiment.judge,
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        file = context.experiment.nuggets
        return {} if file is None else {"file.nuggets": context.file_digest(file)}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        check_golds(experiment, context.artifact(QUERY_FACTS_KEY).table())
        table = answer_metrics(
            context.artifact(answers_key(key["answerer"])).table(),
            golds_with_nuggets(context),
            contexts_with_texts(context, key),
            metric_names(experiment),
            experiment.config.answer_metrics.language,
        )
        return TableProduct(table, {"n_failed": pc.sum(table["failed"]).as_py() or 0})


def golds_with_nuggets(context: StageContext) -> list[Gold]:
    """Return what is right for each question, with its nuggets.

    Raises:
        DataError: the file of nuggets breaks its format, or names what is not there.
    """
    golds, experiment = golds_in(context), context.experiment
    if experiment.nuggets is None:
        return golds
    labels = {gold.query_id: {item.evidence_id for item in gold.evidence} for gold in golds}
    every = experiment.every_query(context.artifact(QUERIES_KEY).table())
    nuggets = read_nuggets(experiment.nuggets, labels, set(every["query_id"].to_pylist()))
    return [replace(gold, nuggets=tuple(nuggets[gold.query_id].values())) for gold in golds]


def answer_metrics(
    answers: pa.Table,
    golds: Iterable[Gold],
    contexts: Contexts | None,
    names: Sequence[str],
    language: Language = "standard",
) -> pa.Table:
    """Return the metrics of every question: table of :data:`~.cases.ANSWER_METRICS`, sorted by id.

    It has a column for each name; null where a metric is not defined. A question without an answer
    failed, one that ``golds`` lacks is not looked at, and one without a context had an empty one,
    unless no contexts are known (None).
    """
    cases = cases_of(answers, golds, contexts, language)
    columns = {
        "query_id": pa.array([case.question.query_id for case in cases], pa.string()),
        "failed": pa.array([case.answer is None for case in cases], pa.bool_()),
        "answerable": pa.array([case.question.answerable for case in cases], pa.bool_()),
    }
    for name in names:
        columns[name] = pa.array([METRICS[name].of(case) for case in cases], pa.float64())
    return ANSWER_METRICS.check(pa.table(columns))


def metric_names(experiment: Experiment) -> tuple[str, ...]:
    """Return the metrics that are computed, in the order of their columns."""
    chosen = experiment.config.answer_metrics.metrics
    return tuple(
        name
        for name, metric in METRICS.items()
        if (chosen is None or name in chosen)
        and (experiment.has_qrels or not metric.needs_evidence)
        and (experiment.nuggets is not None or not metric.needs_nuggets)
    )


def golds_in(context: StageContext) -> list[Gold]:
    """Return what is right for each question, see :func:`golds_of`."""
    facts, experiment = context.artifact(QUERY_FACTS_KEY).table(), context.experiment
    qrels = context.artifact(QRELS_KEY).table() if experiment.has_qrels else QRELS.empty()
    return golds_of(facts, qrels, experiment.judge)


def golds_of(facts: pa.Table, qrels: pa.Table, judge: str) -> list[Gold]:
    """Return what is right for every question.

    A question is answerable when a right answer is known, or a label has a positive grade; whether
    another one is not, :func:`~rag_assets.evaluation.query_facts.answerable_queries` says. Its
    evidence is as large as what is judged: of a judged document, the whole of it, also where the
    label has a span. Chunks are judged only where each is a whole document, and has its id.
    """
    evidence: dict[str, list[Evidence]] = {}
    for row in qrels.filter(pc.greater(qrels["grade"], 0)).to_pylist():
        span = (row["start"], row["end"]) if judge == "evidence" else ()
        place = Evidence(row["evidence_id"], row["document_id"], *span)
        evidence.setdefault(row["query_id"], []).append(place)
    is_answerable = answerable_queries(facts, qrels)
    return [
        Gold(
            query_id,
            True if answers else is_answerable[query_id],
            tuple(answers),
            tuple(evidence.get(query_id, ())),
        )
        for query_id, answers in column_values(facts, "query_id", "answers")
    ]


def check_golds(experiment: Experiment, facts: pa.Table) -> None:
    """Refuse a metric that was asked for and compares with what is not there.

    Raises:
        ConfigError: no question has a right answer, or there are no nuggets.
    """
    has_golds = any(facts["answers"].to_pylist())
    for number, name in enumerate(experiment.config.answer_metrics.metrics or ()):
        lacks_golds = METRICS[name].needs_gold and not has_golds
        if lacks_golds or (METRICS[name].needs_nuggets and experiment.nuggets is None):
            lacking = "right answers, and no question has one"
            lacking = lacking if lacks_golds else "nuggets, and there is no nuggets.jsonl"
            problem = f"{name} compares with {lacking}"
            location = ("answer_metrics", "metrics", number)
            raise read_yaml(experiment.source).error(location, problem)


def answer_metrics_key(answerer: str) -> ArtifactKey:
    """Return the metrics of one answerer at its cut-off."""
    return ArtifactKey.of("answer_metrics", answerer=answerer)
