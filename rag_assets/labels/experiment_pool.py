"""The pool and the sample of labels of an experiment.

Both are taken from stored runs; nothing is computed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rag_assets.errors import MissingArtifact, NotEvaluated, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.logs import (
    acted_marks,
    design_file,
    drawn_items,
    left_out,
    read_judgments,
    read_marks,
)
from rag_assets.labels.pool import PooledUnit, label_pool, units_in
from rag_assets.labels.sampling.design import (
    new_design,
    read_design,
    write_design,
)
from rag_assets.labels.sampling.label_sample import (
    SampledPool,
    earlier_labels,
    not_answered,
)
from rag_assets.labels.sampling.sample_stage import (
    clusters_of,
    question_ids,
    sampled_passages,
)
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.evaluations import manifest_of, read_current
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.progress import Progress
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.store.settings import StoreSettings


def labelling_pipeline(path: Path, settings: StoreSettings, progress: Progress) -> Pipeline:
    """Return a pipeline on questions and labels as they were when they were evaluated last.

    A mark makes the evaluation stale, and who marks a question wants to go on labelling.
    """
    pipeline = Pipeline(open_experiment(path, settings), settings, progress)
    try:
        evaluation = read_current(pipeline.root)
    except NotEvaluated:
        return pipeline
    had_qrels = pipeline.experiment.has_qrels
    if pipeline.experiment.has_graded_pool:  # the last grade may have come since then
        had_qrels = bool(evaluation.entries_of(QRELS_KEY.asset))
    for entry in evaluation.entries_of(QUERIES_KEY.asset):
        manifest = manifest_of(pipeline.root, evaluation, entry)
        if manifest is not None:
            marks = acted_marks(manifest.config)
            then = replace(pipeline.experiment, marks=marks, has_qrels=had_qrels)
            return Pipeline(then, settings, progress)
    return pipeline


def sampled_pool(pipeline: Pipeline, depth: int, seed: int = 0) -> SampledPool:
    """Return the sample of an experiment; its design is written, or extended by new systems.

    ``depth`` ranks of each retriever are in the pool. A sample that exists keeps its own seed.
    Questions that people left out do not count any more, also before the next evaluation.

    Raises:
        UsageError: no run is as deep.
        MissingArtifact: the experiment must be evaluated first.
        DataError: the design or the log was damaged.
    """
    experiment = pipeline.experiment
    _check_depth(experiment, depth)
    evaluated = evaluated_retrievers(pipeline)
    rest = [name for name in experiment.retrievers if name not in evaluated]
    if rest:
        raise MissingArtifact(
            f"the sample is drawn from all retrievers, and {', '.join(rest)} have no results yet: "
            f"run `rag-assets evaluate {experiment.source}`, or use `rag-assets pool`, which "
            "writes a sheet of what is evaluated"
        )
    log = experiment.judgments_log
    file = design_file(log)
    stored = read_design(file) if file.is_file() else None
    out = set(left_out(read_marks(experiment.question_marks_file)))
    ids = [name for name in question_ids(pipeline.artifact) if name not in out]
    passages = sampled_passages(experiment, pipeline.artifact, depth)
    pool = label_pool(passages, ids, depth, stored.items if stored is not None else ())
    weights = pool.weights(Metric("dcg", depth))
    if stored is None:
        design = new_design(pool.items, weights, seed)
    else:
        design = stored.extended(pool.items, weights, drawn_items(read_judgments(log)))
    if design is not stored:
        write_design(design, file)
    clusters = clusters_of(experiment, pipeline.artifact, ids)
    return SampledPool(pool, design, log, tuple(earlier_labels(passages)), clusters)


def run_pool(pipeline: Pipeline, depth: int) -> set[PooledUnit]:
    """Return what the retrievers found in their first ``depth`` ranks and nobody judged yet."""
    experiment = pipeline.experiment
    _check_depth(experiment, depth)
    names = evaluated_retrievers(pipeline)
    passages = sampled_passages(experiment, pipeline.artifact, depth, names)
    tables = [table.filter(table["label"].is_null()) for table in passages.values()]
    units = {unit for table in tables for unit in units_in(table)}
    return not_answered(units, read_judgments(experiment.judgments_log))


def evaluated_retrievers(pipeline: Pipeline) -> list[str]:
    """Return the retrievers that the last evaluation has a run of; all before the first one."""
    names = list(pipeline.experiment.retrievers)
    try:
        entries = read_current(pipeline.root).entries
    except NotEvaluated:
        return names
    runs = {entry.partition["retriever"] for entry in entries if entry.asset.endswith("_runs")}
    return [name for name in names if name in runs] or names


def _check_depth(experiment: Experiment, depth: int) -> None:
    if depth > max(experiment.top_k):
        raise UsageError(
            f"depth {depth} is deeper than the runs of {experiment.name}; allowed: at most "
            f"{max(experiment.top_k)}, the largest top_k"
        )
