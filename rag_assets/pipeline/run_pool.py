"""The pool of an experiment, from its stored runs; nothing is computed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import UsageError
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.units import unit_spans
from rag_assets.labels.pooling.pool import Pair, PooledUnit, Spans, pool, spans_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.external.stage import chunk_keys
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.sources.stage import DOCUMENTS_KEY


def run_pool(pipeline: Pipeline, depth: int) -> set[PooledUnit]:
    """Return what the retrievers found in their first ``depth`` ranks and nobody judged yet.

    Raises:
        UsageError: no run is as deep.
        MissingArtifact: something is not up to date; the experiment must be evaluated first.
    """
    runs, units = runs_and_spans(pipeline, depth)
    has_qrels = pipeline.experiment.has_qrels
    judged = {name: judged_units(pipeline, name).keys() for name in runs} if has_qrels else {}
    return pool(runs, units, judged, depth=depth)


def runs_and_spans(pipeline: Pipeline, depth: int) -> tuple[dict[str, pa.Table], dict[str, Spans]]:
    """Return the run of each retriever that is at least so deep, and the spans of its units.

    Raises:
        UsageError: no run is as deep.
        MissingArtifact: something is not up to date; the experiment must be evaluated first.
    """
    experiment = pipeline.experiment
    deep_enough = [top_k for top_k in experiment.top_k if top_k >= depth]
    if not deep_enough:
        raise UsageError(
            f"depth {depth} is deeper than the runs of {experiment.name}; allowed: at most "
            f"{max(experiment.top_k)}, the largest top_k"
        )
    names = list(experiment.retrievers)
    runs = {
        name: pipeline.artifact(run_key(experiment, name, deep_enough[0])).table() for name in names
    }
    if experiment.judge != "evidence":
        return runs, dict.fromkeys(names, _documents(pipeline))
    return runs, {name: _units(pipeline, name) for name in names}


def _documents(pipeline: Pipeline) -> Spans:
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    names, lengths = documents.column("document_id"), pc.utf8_length(documents.column("text"))
    ends = zip(names.to_pylist(), lengths.to_pylist(), strict=True)
    return {name: (name, 0, length) for name, length in ends}


def _units(pipeline: Pipeline, retriever: str) -> Spans:
    keys = chunk_keys(pipeline.experiment, retriever)
    spans = pa.concat_tables([unit_spans(pipeline.artifact(key).table()) for key in keys])
    # A returned text that was not located is no span that anybody could judge.
    return spans_of(spans.filter(pc.greater(spans.column("end"), 0)))


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
