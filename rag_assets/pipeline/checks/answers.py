"""Checks of answers and of their metrics."""

from __future__ import annotations

from rag_assets.answers.metrics_stage import metric_names
from rag_assets.evaluation.table_checks import out_of_bounds
from rag_assets.pipeline.checks.check import WARNING, Check, Found, Reads
from rag_assets.store.artifacts import Artifact, ArtifactKey


def _answered(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    rows = artifact.table().select(["query_id", "error"]).to_pylist()
    problems = [f"{row['query_id']}: {row['error']}" for row in rows if row["error"] is not None]
    return Found(problems, WARNING, {"failed": len(problems)})


def _bounds(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    return Found(out_of_bounds(artifact.table(), list(metric_names(reads.pipeline.experiment))))


ANSWERS = (Check("questions_answered", "Every question has an answer; none failed.", _answered),)
ANSWER_METRICS = (Check("metrics_in_bounds", "Every metric lies between 0 and 1.", _bounds, True),)
