"""Checks of metrics and of what is concluded from them."""

from __future__ import annotations

from rag_assets.evaluation.metric_checks import incomplete, out_of_bounds, tied_at_cut
from rag_assets.pipeline.checks.check import WARNING, Check, Found
from rag_assets.pipeline.checks.reads import Reads
from rag_assets.pipeline.checks.regressions import regressions
from rag_assets.store.artifacts import Artifact, ArtifactKey

TIED_SHARE = 0.1
"""So many of the queries may have ties at the cut before it is a warning."""


def _bounds(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    measures = reads.pipeline.experiment.measures_at(int(key["top_k"]))
    return Found(out_of_bounds(artifact.table(), list(measures)))


def _complete(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    return Found(incomplete(artifact.table(), reads.queries), WARNING)


def _ties(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    problems = tied_at_cut(artifact.table())
    share = len(problems) / max(artifact.manifest.rows, 1)
    return Found(problems, WARNING, {"tied_share": share}, passes=share <= TIED_SHARE)


def _no_regression(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    experiment = reads.pipeline.experiment
    problems = regressions(artifact.table(), experiment.baseline)
    return Found(problems, experiment.checks.regression, {"regressions": len(problems)})


METRICS = (
    Check("metrics_in_bounds", "Every metric lies between 0 and 1.", _bounds, True),
    Check("run_complete", "Every query has its metrics; the retriever failed on none.", _complete),
    Check(
        "ties_at_the_cut",
        f"The order of tied units decides the cut of at most {TIED_SHARE:.0%} of the queries.",
        _ties,
    ),
)
COMPARISONS = (
    Check(
        "no_regression",
        "No retriever is shown to be worse than the baseline by the paired test.",
        _no_regression,
    ),
)
