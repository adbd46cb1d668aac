"""Checks of runs, whatever their family."""

from __future__ import annotations

from rag_assets.evaluation.run_checks import disordered, unanswered, unknown_ids
from rag_assets.pipeline.checks.check import WARNING, Check, Found
from rag_assets.pipeline.checks.drift import DRIFT
from rag_assets.pipeline.checks.reads import Reads
from rag_assets.pipeline.failures import failures_of
from rag_assets.store.artifacts import Artifact, ArtifactKey


def _answered(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    run, failures = artifact.table(), failures_of(artifact.manifest)
    problems = unanswered(run, reads.queries, failures)
    return Found(problems, WARNING, {"unanswered": len(problems), "failed": len(failures)})


def _ordered(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    return Found(disordered(artifact.table()))


def _known(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    judge = reads.pipeline.experiment.judge
    units = reads.units(key["retriever"])
    return Found(unknown_ids(artifact.table(), reads.queries, units, judge))


RUNS = (
    Check("queries_answered", "Something was retrieved for every query.", _answered),
    Check("ranks_and_scores", "Ranks are 1 to n and scores do not rise.", _ordered, True),
    Check("ids_exist", "Every query, chunk and unit is one of the experiment.", _known, True),
    DRIFT,
)
