"""The pool of an experiment, from its stored runs; nothing is computed."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.pooling.pool import Pair, PooledUnit, Spans, pool
from rag_assets.labels.sampling.graded_pool import not_answered
from rag_assets.labels.sampling.judgment_log import read_judgments
from rag_assets.labels.sampling.sample_stage import retriever_spans
from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.runs_stage import run_key


def run_pool(pipeline: Pipeline, depth: int) -> set[PooledUnit]:
    """Return what the retrievers found in their first ``depth`` ranks and nobody judged yet.

    Raises:
        UsageError: no run is as deep.
        MissingArtifact: something is not up to date; the experiment must be evaluated first.
    """
    runs, units = runs_and_spans(pipeline, depth)
    has_qrels = pipeline.experiment.has_qrels
    judged = {name: judged_units(pipeline, name).keys() for name in runs} if has_qrels else {}
    found = pool(runs, units, judged, depth=depth)
    log = pipeline.experiment.judgments_log
    return not_answered(found, read_judgments(log)) if log.is_file() else found


def runs_and_spans(pipeline: Pipeline, depth: int) -> tuple[dict[str, pa.Table], dict[str, Spans]]:
    """Return the run of each evaluated retriever at ``depth`` or deeper, and its units' spans.

    Raises:
        UsageError: no run is as deep.
        MissingArtifact: something is not up to date; the experiment must be evaluated first.
    """
    experiment = pipeline.experiment
    check_depth(experiment, depth)
    deep_enough = [top_k for top_k in experiment.top_k if top_k >= depth]
    names = evaluated_retrievers(pipeline)
    runs = {
        name: pipeline.artifact(run_key(experiment, name, deep_enough[0])).table() for name in names
    }
    return runs, {name: retriever_spans(experiment, pipeline.artifact, name) for name in names}


def evaluated_retrievers(pipeline: Pipeline) -> list[str]:
    """Return the retrievers that the last evaluation has a run of; all before the first one."""
    names = list(pipeline.experiment.retrievers)
    try:
        entries = read_current(pipeline.root).entries
    except NotEvaluated:
        return names
    runs = {one.partition["retriever"] for one in entries if one.asset.endswith("_runs")}
    return [name for name in names if name in runs] or names


def check_depth(experiment: Experiment, depth: int) -> None:
    """Refuse a pool that is deeper than the runs.

    Raises:
        UsageError: no run is as deep.
    """
    if depth > max(experiment.top_k):
        raise UsageError(
            f"depth {depth} is deeper than the runs of {experiment.name}; allowed: at most "
            f"{max(experiment.top_k)}, the largest top_k"
        )


def judged_units(pipeline: Pipeline, retriever: str) -> dict[Pair, int]:
    """Return the (query, unit) pairs of a retriever that have a judgment, and their highest grade.

    Raises:
        MissingArtifact: the experiment must be evaluated first.
    """
    table = pipeline.artifact(relevant_units_key(retriever)).table().drop_null()
    names = ("query_id", "unit_id", "grade")
    grades: dict[Pair, int] = {}
    for query_id, unit_id, grade in zip(*(table[name].to_pylist() for name in names), strict=True):
        grades[query_id, unit_id] = max(grade, grades.get((query_id, unit_id), grade))
    return grades
