"""``query_facts``: what of each query counts besides its text, and what statistics read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts import (
    ALL,
    DOCUMENT,
    QUERY,
    Fail,
    Fields,
    answers_of,
    cut_clusters,
    declared_unanswerable,
    document_clusters,
    facts_table,
    field_clusters,
    field_splits,
    field_weights,
    hashed_splits,
    metadata_of,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.schemas import QUERY_FACTS
from rag_assets.sources.fields import note
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.statistics.units import Resampling
from rag_assets.store.artifacts import ArtifactKey

QUERY_FACTS_KEY = ArtifactKey.of("query_facts")

TableOf = Callable[[ArtifactKey], pa.Table]
"""Gives the table of a partition: of the context, or of a snapshot."""

COUNTING_INPUT = Input("counting", QUERY_FACTS_KEY, "counting")


class QueryFacts(Stage):
    """Answers, weights, splits, clusters, and what is declared to have no answer.

    An edited text changes none of them, nor does a tag other than ``unanswerable``.
    """

    name = "query_facts"
    schema = QUERY_FACTS
    row = "One query: its answers, weight, split and cluster."
    group = "data"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "answers": ("query_id", "answers", "unanswerable"),
        "counting": ("query_id", "weight", "split", "cluster"),
        "means": ("query_id", "weight", "split"),
        "answerable": ("query_id", "weight", "split", "unanswerable"),
    }

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [QUERY_FACTS_KEY] if experiment.measures_texts else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        queries = [Input("queries", QUERIES_KEY, "facts")]
        if experiment.statistics.cluster == DOCUMENT and experiment.has_qrels:
            queries.append(Input("qrels", QRELS_KEY))
        return queries

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "split": experiment.config.split.model_dump() if experiment.config.split else None,
            "weight": experiment.weight,
            "cluster": experiment.statistics.cluster,
        }

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        queries = context.artifact(QUERIES_KEY).table()
        metadata = metadata_of(queries)
        read_answers = {query_id: answers_of(fields) for query_id, fields in metadata.items()}
        weights = _weights(experiment, metadata)
        clusters = _clusters(context, metadata)
        splits = _splits(experiment, metadata, clusters)
        answers = {query_id: texts for query_id, texts in read_answers.items() if texts is not None}
        unanswerable = declared_unanswerable(queries)
        table = facts_table(list(metadata), answers, weights, splits, clusters, unanswerable)
        unread = [query_id for query_id, texts in read_answers.items() if texts is None]
        notes = _notes(experiment, table, unread)
        return TableProduct(table, {"notes": notes, **_counts(table)})


def _weights(experiment: Experiment, metadata: Mapping[str, Fields]) -> dict[str, float]:
    if experiment.weight is None:
        return {}
    return field_weights(metadata, experiment.weight, _failing(experiment, "weight"))


def _clusters(context: StageContext, metadata: Mapping[str, Fields]) -> dict[str, str]:
    cluster, clusters = context.experiment.statistics.cluster, dict[str, str]()
    if cluster == DOCUMENT and context.experiment.has_qrels:
        clusters = document_clusters(context.artifact(QRELS_KEY).table())
    elif cluster.startswith(QUERY):
        fail = _failing(context.experiment, "statistics", "cluster")
        clusters = field_clusters(metadata, cluster.removeprefix(QUERY), fail)
    return {query_id: clusters.get(query_id, query_id) for query_id in metadata}


def _splits(
    experiment: Experiment, metadata: Mapping[str, Fields], clusters: Mapping[str, str]
) -> dict[str, str]:
    split = experiment.config.split
    if split is None:
        return {}
    if split.field is not None:
        return field_splits(metadata, split.field, _failing(experiment, "split", "field"))
    return hashed_splits(clusters, split.dev, split.seed, _failing(experiment, "split"))


def _failing(experiment: Experiment, *location: str) -> Fail:
    """Return what makes an error at a key of the experiment's YAML."""

    def fail(problem: str) -> Exception:
        key = ".".join(location)
        if not experiment.has_file:
            return DataError(problem, file=experiment.source, key=key)
        file = experiment.source
        return DataError(problem, file=file, line=read_yaml(file).line_of(location), key=key)

    return fail


def _notes(experiment: Experiment, table: pa.Table, unread: Sequence[str]) -> list[str]:
    singular = "query has an answer that is not a text; its answers do not count"
    notes = note(
        singular, "queries have an answer that is not a text; their answers do not count", unread
    )
    if experiment.weight is not None:
        notes.append(f"every mean is weighted by the field {experiment.weight!r} of the queries")
    pairs = zip(table["query_id"].to_pylist(), table["cluster"].to_pylist(), strict=True)
    sides = zip(table["query_id"].to_pylist(), table["split"].to_pylist(), strict=True)
    cut = cut_clusters(dict(pairs), dict(sides))
    singular = "cluster has queries in dev and in test"
    return notes + note(singular, "clusters have queries in dev and in test", cut)


def _counts(table: pa.Table) -> dict[str, int]:
    splits = table["split"].to_pylist()
    return {f"n_{split}": splits.count(split) for split in sorted(set(splits)) if split != ALL}


def counting_of(table_of: TableOf) -> pa.Table:
    """Return query_id, weight, split and cluster of every query."""
    return table_of(QUERY_FACTS_KEY).select(["query_id", "weight", "split", "cluster"])


def resampling_of(experiment: Experiment) -> Resampling:
    """Return the experiment's ``statistics``: confidence, number and seed of resamples."""
    chosen = experiment.statistics
    return Resampling(chosen.confidence, chosen.resamples, chosen.seed)
