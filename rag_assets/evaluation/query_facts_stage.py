"""``query_facts``: what of each query counts besides its text, and what statistics read of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import pyarrow as pa

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts import (
    ALL,
    DEV,
    DOCUMENT,
    QUERY,
    TEST,
    Fail,
    Fields,
    declared_unanswerable,
    facts_table,
    metadata_of,
    relevant_documents,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.options import shown_value
from rag_assets.schemas import QUERY_FACTS
from rag_assets.sources.fields import note
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.statistics.units import Counting, Resampling
from rag_assets.store.artifacts import ArtifactKey

QUERY_FACTS_KEY = ArtifactKey.of("query_facts")
COUNTED = ("query_id", "weight", "split", "cluster")
COUNTING_INPUT = Input("counting", QUERY_FACTS_KEY, "counting")

Weight = Annotated[float, msgspec.Meta(gt=0, le=2.0**53)]
"""Up to there every whole number is a float of its own."""


class QueryFacts(Stage):
    """The facts of each query besides its text: answers, weight, split, cluster.

    An edited text changes none of them, nor does a tag other than ``unanswerable``.
    """

    name = "query_facts"
    made_for = "read_retrievers"
    schema = QUERY_FACTS
    row = "One query: its answers, weight, split and cluster."
    group = "data"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "answers": ("query_id", "answers", "unanswerable"),
        "counting": COUNTED,
        "means": ("query_id", "weight", "split"),
        "answerable": ("query_id", "weight", "split", "unanswerable"),
    }

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
        read = {query_id: answers_of(fields) for query_id, fields in metadata.items()}
        answers = {query_id: texts for query_id, texts in read.items() if texts is not None}
        weights = {}
        if experiment.weight is not None:
            weights = field_weights(metadata, experiment.weight, _failing(experiment, "weight"))
        clusters = _clusters(context, metadata)
        splits = _splits(experiment, metadata, clusters)
        unanswerable = declared_unanswerable(queries)
        table = facts_table(list(metadata), answers, weights, splits, clusters, unanswerable)
        notes = note(
            "query has an answer that is not a text; its answers are not used",
            "queries have an answer that is not a text; their answers are not used",
            [query_id for query_id in metadata if query_id not in answers],
        )
        if experiment.weight is not None:
            field = repr(experiment.weight)
            notes.append(f"every mean is weighted by the field {field} of the queries")
        cut = cut_clusters(clusters, splits) if splits else []
        where = "queries in dev and in test"
        notes += note(f"cluster has {where}", f"clusters have {where}", cut)
        sides = table["split"].to_pylist()
        counts = {f"n_{s}": sides.count(s) for s in sorted(set(sides)) if s != ALL}
        return TableProduct(table, {"notes": notes, **counts})


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
        file = experiment.source
        line = read_yaml(file).line_of(location) if experiment.has_file else None
        return DataError(problem, file=file, line=line, key=".".join(location))

    return fail


def answers_of(fields: Fields) -> list[str] | None:
    """Return the different answers under ``answers``, else ``answer``; None: not readable.

    A string or a number is one answer, a list holds several; blank ones are none.
    """
    raw = fields["answers"] if fields.get("answers") is not None else fields.get("answer")
    listed = raw if isinstance(raw, list) else [] if raw is None else [raw]
    if any(isinstance(value, bool) or not isinstance(value, str | int | float) for value in listed):
        return None
    texts = (value if isinstance(value, str) else json.dumps(value) for value in listed)
    return list(dict.fromkeys(text for text in texts if text.strip()))


def field_weights(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, float]:
    """Return query id -> the positive number in a field, which may be a text."""
    weights = {}
    for query_id, fields in metadata.items():
        value = fields.get(field)
        try:
            number = value.strip() if isinstance(value, str) else value
            weights[query_id] = msgspec.convert(number, Weight, strict=False)
        except msgspec.ValidationError:
            allowed = "must be a positive number, at most 2^53"
            _refuse_others(metadata, field, [query_id], allowed, fail)
    return weights


def _refuse_others(
    metadata: Mapping[str, Fields], field: str, wrong: Sequence[str], allowed: str, fail: Fail
) -> None:
    """Refuse queries with another value of a field: ``query 'q1' has 'fold': 'tset'; must be``."""
    if wrong:
        value = metadata[wrong[0]].get(field)
        text = f"has {field!r}: {shown_value(value)}"
        what = f"has no field {field!r}" if value is None else text
        raise fail(f"query {wrong[0]!r} {what}; {allowed}")


def document_clusters(qrels: pa.Table) -> dict[str, str]:
    """Return query id -> cluster, where queries with a relevant document in common share one.

    They are the connected components of queries and their relevant documents, each named after the
    smallest of its document ids, so that a query that is added renames none. A query without a
    relevant document is left out.
    """
    documents = relevant_documents(qrels)
    parents: dict[str, str] = {}

    def root(document: str) -> str:
        path = []
        while parents.setdefault(document, document) != document:
            path.append(document)
            document = parents[document]
        parents.update(dict.fromkeys(path, document))
        return document

    for names in documents.values():
        roots = {root(document) for document in names}
        parents.update(dict.fromkeys(roots, min(roots)))
    return {query: f"{DOCUMENT}:{root(min(names))}" for query, names in documents.items()}


def field_clusters(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, str]:
    """Return query id -> cluster, where queries with the same value of a field share one."""
    values = {query_id: fields.get(field) for query_id, fields in metadata.items()}
    if metadata and not any(value is not None for value in values.values()):
        names = sorted({name for fields in metadata.values() for name in fields})
        raise fail(f"no query has the field {field!r}; found: {', '.join(names) or 'none'}")
    return {
        query_id: f"{QUERY}{field}:"
        + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for query_id, value in values.items()
        if value is not None
    }


def hashed_splits(clusters: Mapping[str, str], dev: float, seed: int, fail: Fail) -> dict[str, str]:
    """Return query id -> ``dev`` or ``test``, by a hash of its cluster.

    The first 64 bits of the SHA-256 of ``<seed>:<cluster>``, as a fraction of 2^64, are less than
    ``dev``: the query is in dev. So a query that is added or goes moves no other, and a cluster is
    never cut. The shares are met in expectation only.
    """
    splits = {}
    for query_id, cluster in clusters.items():
        digest = hashlib.sha256(f"{seed}:{cluster}".encode()).digest()
        splits[query_id] = DEV if int.from_bytes(digest[:8]) / 2**64 < dev else TEST
    how = f"dev: {dev:g} and seed: {seed} put all {len(splits)} queries into the other split"
    _check_sides(splits.values(), f"{how}; choose another share or seed", fail)
    return splits


def field_splits(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, str]:
    """Return query id -> the value of a field, which must be ``dev`` or ``test``."""
    wrong = [q for q, fields in metadata.items() if fields.get(field) not in (DEV, TEST)]
    _refuse_others(metadata, field, wrong, f"must be {DEV} or {TEST}", fail)
    splits = {query_id: str(fields[field]) for query_id, fields in metadata.items()}
    _check_sides(splits.values(), f"all {len(splits)} have the other value of {field!r}", fail)
    return splits


def _check_sides(sides: Collection[str], why: str, fail: Fail) -> None:
    for side in (DEV, TEST):
        if side not in sides:
            raise fail(f"no query is in {side}: {why}")


def cut_clusters(clusters: Mapping[str, str], splits: Mapping[str, str]) -> list[str]:
    """Return the clusters that have queries in dev and in test, sorted."""
    sides: dict[str, set[str]] = {}
    for query_id, cluster in clusters.items():
        sides.setdefault(cluster, set()).add(splits[query_id])
    return sorted(cluster for cluster, splits_of in sides.items() if len(splits_of) > 1)


def counting_of(table_of: Callable[[ArtifactKey], pa.Table]) -> Counting:
    """Return query_id, weight, split and cluster of every query, of a context or a snapshot."""
    rows: Counting = table_of(QUERY_FACTS_KEY).select(COUNTED).to_pylist()
    return rows


def resampling_of(experiment: Experiment) -> Resampling:
    """Return the experiment's ``statistics``: confidence, number and seed of resamples."""
    chosen = experiment.statistics
    return Resampling(chosen.confidence, chosen.resamples, chosen.seed)
