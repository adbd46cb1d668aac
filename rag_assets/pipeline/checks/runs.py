"""Checks of runs, whatever their family."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.engine.failures import failures_of
from rag_assets.evaluation.table_checks import disordered, unanswered, unknown_ids
from rag_assets.pipeline.checks.check import WARNING, Check, Found
from rag_assets.pipeline.checks.drift import DRIFT
from rag_assets.pipeline.checks.reads import Reads
from rag_assets.store.artifacts import Artifact, ArtifactKey


def _answered(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    run, failures = artifact.table(), failures_of(artifact.manifest)
    problems = unanswered(run, reads.queries, failures)
    return Found(problems, WARNING, {"unanswered": len(problems), "failed": len(failures)})


def _ordered(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    run = artifact.table()
    return Found(disordered(run), not_checked=_nothing(run))


def _known(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    judge = reads.pipeline.experiment.judge
    units = reads.units(key["retriever"])
    run = artifact.table()
    return Found(unknown_ids(run, reads.queries, units, judge), not_checked=_nothing(run))


def _nothing(run: pa.Table) -> str | None:
    """Return why a run cannot be looked at; None: it can."""
    return None if run.num_rows else "nothing was retrieved for any query"


RUNS = (
    Check("queries_answered", "Something was retrieved for every query.", _answered),
    Check("ranks_and_scores", "Ranks are 1 to n and scores do not rise.", _ordered, True),
    Check("ids_exist", "Every query, chunk and unit is one of the experiment.", _known, True),
    DRIFT,
)
