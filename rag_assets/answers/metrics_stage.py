"""``answer_metrics[answerer]``: how good each answer is, what is right, and means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answer_text import Language
from rag_assets.answers.cases import (
    ANSWER_METRICS,
    Contexts,
    Evidence,
    Question,
    cases_of,
)
from rag_assets.answers.contexts_stage import context_input, contexts_with_texts
from rag_assets.answers.metrics import METRICS, metric_code
from rag_assets.answers.stage import answers_key
from rag_assets.code_versions.closure import Root
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import ConfigError
from rag_assets.evaluation.query_facts import answerable_queries
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.schemas import QRELS
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey


class AnswerMetricsStage(Stage):
    """Every metric of an answerer's answers, question by question."""

    name = "answer_metrics"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    schema = ANSWER_METRICS
    row = "One question of one answerer: every metric of its answer."
    group = "answers"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [answer_metrics_key(key) for key in experiment.answer_cells]

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

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        check_golds(experiment, context.artifact(QUERY_FACTS_KEY).table())
        table = answer_metrics(
            context.artifact(answers_key(key["answerer"])).table(),
            golds_in(context),
            contexts_with_texts(context, key),
            metric_names(experiment),
            experiment.config.answer_metrics.language,
        )
        return TableProduct(table, {"n_failed": pc.sum(table["failed"]).as_py() or 0})


def answer_metrics(
    answers: pa.Table,
    golds: Iterable[Question],
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
    )


def golds_in(context: StageContext) -> list[Question]:
    """Return what is right for each question, see :func:`golds_of`."""
    facts, experiment = context.artifact(QUERY_FACTS_KEY).table(), context.experiment
    qrels = context.artifact(QRELS_KEY).table() if experiment.has_qrels else QRELS.empty()
    return golds_of(facts, qrels, experiment.judge)


def golds_of(facts: pa.Table, qrels: pa.Table, judge: str) -> list[Question]:
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
        Question(
            query_id,
            True if answers else is_answerable[query_id],
            tuple(answers),
            tuple(evidence.get(query_id, ())),
        )
        for query_id, answers in zip(
            *(facts[name].to_pylist() for name in ("query_id", "answers")), strict=True
        )
    ]


def check_golds(experiment: Experiment, facts: pa.Table) -> None:
    """Refuse a metric that was asked for and compares with right answers, where there are none.

    Raises:
        ConfigError: no question has a right answer.
    """
    if any(facts["answers"].to_pylist()):
        return
    for number, name in enumerate(experiment.config.answer_metrics.metrics or ()):
        if METRICS[name].needs_gold:
            file, location = experiment.source, ("answer_metrics", "metrics", number)
            raise ConfigError(
                f"{name} compares with right answers, and no question has one",
                file=file,
                line=read_yaml(file).line_of(location),
                key=f"answer_metrics.metrics[{number}]",
            )


def answer_metrics_key(answerer: str) -> ArtifactKey:
    """Return the metrics of one answerer at its cut-off."""
    return ArtifactKey.of("answer_metrics", answerer=answerer)
