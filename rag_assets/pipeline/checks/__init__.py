"""Checks of the partitions of an experiment: on which assets, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assets.engine.stage import Stage
from rag_assets.errors import DataError
from rag_assets.pipeline.checks import answers, labels, numbers, runs, served_models
from rag_assets.pipeline.checks.check import Check, CheckResult
from rag_assets.pipeline.checks.reads import Reads
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.retrieval.runs_stage import RunsStage
from rag_assets.store.artifacts import ArtifactKey

__all__ = ["Check", "CheckResult", "checks_of", "results_of", "results_of_unreadable"]

_OF_ASSET: dict[str, tuple[Check, ...]] = {
    "documents": (labels.DOCUMENTS,),
    "queries": (labels.QUERIES,),
    "qrels": (labels.QRELS,),
    "query_set_answers": served_models.SERVED,
    "metrics": numbers.METRICS,
    "comparisons": numbers.COMPARISONS,
    "answers": (*answers.ANSWERS, *served_models.SERVED),
    "answer_metrics": answers.ANSWER_METRICS,
}


def checks_of(stage: Stage) -> tuple[Check, ...]:
    """Return the checks of a stage's partitions; most stages have none."""
    return runs.RUNS if isinstance(stage, RunsStage) else _OF_ASSET.get(stage.name, ())


def results_of(pipeline: Pipeline, stage: Stage, outcomes: Iterable[Outcome]) -> list[CheckResult]:
    """Check partitions that are up to date; a check that nobody asked for has no result.

    Raises:
        MissingArtifact: what a check reads is not in the store.
    """
    reads = Reads(pipeline)
    found = [
        (check, outcome.key, check.find(reads, outcome.key, outcome.artifact))
        for outcome in outcomes
        for check in checks_of(stage)
    ]
    return [CheckResult(check, key, one) for check, key, one in found if one is not None]


def results_of_unreadable(pipeline: Pipeline, stage: Stage, error: Exception) -> list[CheckResult]:
    """Return what is wrong with source files that could not be read, all of it."""
    checks = [check for check in checks_of(stage) if check.name == labels.NAME]
    if not isinstance(error, DataError):
        return []
    found = [labels.unreadable(pipeline, stage.name, error) for _ in checks]
    key = ArtifactKey.of(stage.name)
    return [CheckResult(check, key, one) for check, one in zip(checks, found, strict=True)]
