"""Checks of metrics and of what is concluded from them."""

from __future__ import annotations

from rag_assets.evaluation.table_checks import incomplete, out_of_bounds, tied_at_cut
from rag_assets.pipeline.checks.check import WARNING, Check, Found
from rag_assets.pipeline.checks.reads import Reads
from rag_assets.pipeline.checks.regressions import is_tested, regressions
from rag_assets.store.artifacts import Artifact, ArtifactKey

TIED_SHARE = 0.1
"""So many of the queries may have ties at the cut before it is a warning."""


def _bounds(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    measures = list(reads.pipeline.experiment.measures_at(int(key["top_k"])))
    metrics = artifact.table()
    is_empty = all(metrics[name].null_count == len(metrics) for name in measures)
    nothing = "no query has a value of any metric" if is_empty else None
    return Found(out_of_bounds(metrics, measures), not_checked=nothing)


def _complete(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    return Found(incomplete(artifact.table(), reads.queries), WARNING)


def _ties(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    metrics = artifact.table()
    if metrics["ties_at_cut"].null_count == len(metrics):
        return Found([], not_checked="what scored as much below the cut is not known of any query")
    problems = tied_at_cut(metrics)
    share = len(problems) / len(metrics)
    return Found(problems, WARNING, {"tied_share": share}, passes=share <= TIED_SHARE)


def _no_regression(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found | None:
    experiment = reads.pipeline.experiment
    if len(experiment.retrievers) < 2:
        return None
    comparisons = artifact.table()
    if not is_tested(comparisons, experiment.baseline):
        reason = f"no retriever could be tested against the baseline {experiment.baseline}"
        return Found([], not_checked=reason)
    problems = regressions(comparisons, experiment.baseline)
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
