"""``answer_metrics[answerer]``: how good each answer is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answer_metrics import answer_metrics, golds_of
from rag_assets.answers.contexts_stage import answer_contexts_key, has_context, with_texts
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.stage import answers_key
from rag_assets.answers.tables import ANSWER_METRICS, ANSWERS
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import ConfigError
from rag_assets.evaluation.contexts_stage import document_texts
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey


class AnswerMetricsStage(Stage):
    """One partition an answerer at one of its cut-offs."""

    name = "answer_metrics"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    schema = ANSWER_METRICS
    row = "One question of one answerer: every metric of its answer."
    group = "answers"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [answer_metrics_key(key) for key in experiment.answer_cells]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return [root_of(METRICS[name]) for name in metric_names(experiment)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        options = experiment.answerers[experiment.answer_cells[key["answerer"]].name]
        contexts = [Input("contexts", answer_contexts_key(key["answerer"]))]
        return [
            Input("answers", answers_key(key["answerer"])),
            *(contexts if has_context(options) else []),
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
        golds, names = golds_in(context), metric_names(experiment)
        check_golds(experiment, golds)
        documents = document_texts(context)
        options = experiment.answerers[experiment.answer_cells[key["answerer"]].name]
        contexts = None
        if has_context(options):
            own = context.artifact(answer_contexts_key(key["answerer"])).table()
            contexts = with_texts(own, documents)
        answers = context.artifact(answers_key(key["answerer"])).table()
        answers = answers.select(ANSWERS.arrow().names)
        language = experiment.config.answer_metrics.language
        table = answer_metrics(answers, golds, contexts, names, language)
        return TableProduct(table, {"n_failed": pc.sum(table["failed"]).as_py() or 0})


def metric_names(experiment: Experiment) -> tuple[str, ...]:
    """Return the metrics that are computed, in the order of their columns."""
    chosen = experiment.config.answer_metrics.metrics
    return tuple(
        name
        for name, metric in METRICS.items()
        if (chosen is None or name in chosen)
        and (experiment.has_qrels or not metric.needs_evidence)
    )


def golds_in(context: StageContext) -> pa.Table:
    """Return what is right for each question, see :func:`.answer_metrics.golds_of`."""
    facts = context.artifact(QUERY_FACTS_KEY).table()
    has_labels = context.experiment.has_qrels
    qrels = context.artifact(QRELS_KEY).table() if has_labels else None
    # Chunks are judged only where every chunk is a whole document, and has its id.
    judge = "document" if context.experiment.judge == "chunk" else context.experiment.judge
    return golds_of(facts, qrels, judge)


def check_golds(experiment: Experiment, golds: pa.Table) -> None:
    """Refuse a metric that was asked for and compares with right answers, where there are none.

    Args:
        experiment: the experiment.
        golds: with the column ``answers``: the right ones of each question.

    Raises:
        ConfigError: no question has a right answer.
    """
    if any(golds["answers"].to_pylist()):
        return
    for number, name in enumerate(experiment.config.answer_metrics.metrics or ()):
        if METRICS[name].needs_gold:
            location = ("answer_metrics", "metrics", number)
            problem = f"{name} compares with right answers, and no question has one"
            file = experiment.source
            line = read_yaml(file).line_of(location)
            raise ConfigError(
                problem, file=file, line=line, key=f"answer_metrics.metrics[{number}]"
            )


def answer_metrics_key(answerer: str) -> ArtifactKey:
    """Return the metrics of one answerer at its cut-off."""
    return ArtifactKey.of("answer_metrics", answerer=answerer)
