"""``answer_summary`` and ``answer_comparisons``: all answerers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.answers.metrics_stage import answer_metrics_key, metric_names
from rag_assets.answers.options import GOLD, AnswerCell
from rag_assets.answers.summary import answer_comparisons, answer_summary
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.query_facts import NONE, with_shared_documents
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, counting_of, resampling_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.schemas import ANSWER_COMPARISONS, ANSWER_SUMMARY
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.stage import SHARED
from rag_assets.store.artifacts import ArtifactKey

ANSWER_SUMMARY_KEY = ArtifactKey.of("answer_summary")
ANSWER_COMPARISONS_KEY = ArtifactKey.of("answer_comparisons")


class _OfAll(Stage):
    """Of all answerers whose metrics are up to date."""

    group: ClassVar[str] = "answers"
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        metrics = [
            Input(f"metrics_of_{cell}", answer_metrics_key(cell), optional=True)
            for cell in experiment.answer_cells
        ]
        return [*metrics, COUNTING_INPUT]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "answerers": list(experiment.answer_cells),
            "metrics": list(metric_names(experiment)),
            **asdict(resampling_of(experiment)),
        }


class AnswerSummary(_OfAll):
    """The mean of each."""

    name = "answer_summary"
    schema = ANSWER_SUMMARY
    row = "One metric of one answerer over a group of questions: its mean and interval."

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [ANSWER_SUMMARY_KEY] if experiment.answerers else []

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        counting = counting_of(lambda key: context.artifact(key).table())
        table = answer_summary(
            _tables(context),
            counting,
            metric_names(experiment),
            experiment.statistics.confidence,
        )
        return TableProduct(table)


class AnswerComparisons(_OfAll):
    """The difference of each pair."""

    name = "answer_comparisons"
    schema = ANSWER_COMPARISONS
    row = "Two answerers by one metric: their difference, and whether it may be chance."

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [ANSWER_COMPARISONS_KEY] if len(experiment.answer_cells) > 1 else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        shared = [Input("qrels", QRELS_KEY)] if _shares_documents(experiment) else []
        return [*super().inputs(experiment, key), *shared]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        own = {SHARED: _shares_documents(experiment), "gold": _golds(experiment)}
        return {**super().config(context, key), **own}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        counting = counting_of(lambda key: context.artifact(key).table())
        if _shares_documents(experiment):
            counting = with_shared_documents(counting, context.artifact(QRELS_KEY).table())
        names, tables = metric_names(experiment), _tables(context)
        resampling, golds = resampling_of(experiment), _golds(experiment)
        return TableProduct(answer_comparisons(tables, counting, names, resampling, golds))


def _golds(experiment: Experiment) -> list[str]:
    """Return the answerers that read the relevant texts."""
    return [name for name, one in experiment.answerers.items() if one.context == GOLD]


def _shares_documents(experiment: Experiment) -> bool:
    return experiment.statistics.cluster == NONE and experiment.has_qrels


def _tables(context: StageContext) -> dict[AnswerCell, pa.Table]:
    """Return the metrics that are up to date, in the order of the experiment."""
    found = {}
    for key, cell in context.experiment.answer_cells.items():
        artifact = context.current(answer_metrics_key(key))
        if artifact is not None:
            found[cell] = artifact.table()
    return found
