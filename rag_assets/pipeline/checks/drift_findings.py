"""Drift of the last evaluation as findings, for ``rag-assets validate``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa

from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.pipeline.checks.drift import NAME, drift_of, far_queries, sentences
from rag_assets.pipeline.checks.states import anchor_of, of_evaluation
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.statistics.score_drift import ScoreDrift

FAR = "far_query"
"""The kind of finding that names a query, where too many are far from the corpus."""


def drift_findings(pipeline: Pipeline, evaluation: Evaluation) -> tuple[pa.Table, list[str]]:
    """Compare the best scores of an evaluation with those of the anchor.

    Of each retriever the cell at the cut-off of the primary metric is looked at: the first hit is
    the same in every other one.

    Returns:
        Table of :data:`rag_assets.labels.health.findings.FINDINGS`, and which retrievers were not
        compared, with the reason.
    """
    experiment = pipeline.experiment
    anchor = anchor_of(pipeline)
    if isinstance(anchor, str):
        return findings_table([]), [f"drift: {anchor}"]
    now = of_evaluation(pipeline, evaluation)
    top_k = experiment.primary.cutoff or max(experiment.top_k)
    found: list[Finding] = []
    skipped: dict[str, list[str]] = defaultdict(list)
    for name in experiment.retrievers:
        if now.artifact(run_key(experiment, name, top_k)) is None:
            skipped["the last evaluation has no such cell"].append(name)
            continue
        drift = drift_of(experiment, name, top_k, anchor, now)
        if isinstance(drift, str):
            skipped[drift].append(name)
        else:
            found += _findings(pipeline, name, drift)
    return findings_table(found), [
        f"drift of {', '.join(names)}: {reason}" for reason, names in skipped.items()
    ]


def _findings(pipeline: Pipeline, retriever: str, drift: ScoreDrift) -> Iterator[Finding]:
    experiment = pipeline.experiment
    severity = experiment.checks.drift.severity
    for problem in sentences(experiment, retriever, drift):
        yield Finding(severity, NAME, f"{retriever}: {problem}")
    if drift.strayed:
        for query_id, text in far_queries(experiment, retriever, drift):
            yield Finding(WARNING, FAR, f"{retriever}: {text}", query_id=query_id)
