"""``overlaps`` and ``list_similarities``: how alike rankings are, and how alike their results.

The overlap of two lists is the share of the longer one that both hold: 1 exactly when both hold the
same units. A query for which one list alone is empty counts 0; where both are empty it is not
counted. Of results it is the mean similarity of all pairs of a list (Ziegler, McNee, Konstan and
Lausen, WWW 2005, add them).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.code_versions.closure import Root
from rag_assets.engine.latency_sample import values_by_query
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct, retriever_code
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.cache_fill import Vectors
from rag_assets.retrieval.base import UNCHUNKED
from rag_assets.retrieval.reranking.diversity import MMR
from rag_assets.retrieval.reranking.stage import (
    FAMILY,
    SECOND_FAMILY,
    indexed_of,
    text_inputs,
    texts_by_chunk,
)
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import LIST_SIMILARITIES, OVERLAPS, column_values
from rag_assets.store.artifacts import ArtifactKey

UNIT, DOCUMENT = "unit", "document"


class Overlaps(Stage):
    """How similar the results of each pair of retrievers are.

    It exists only without labels: with them the metrics answer the question that it can only
    hint at, and an experiment that has labels pays nothing for it. One retriever has no pair.
    """

    name = "overlaps"
    dimensions: ClassVar[tuple[str, ...]] = ("top_k",)
    schema = OVERLAPS
    row = "Two retrievers at one top_k: the share of common units."
    group = "metrics"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        if experiment.has_qrels or len(experiment.retrievers) < 2:
            return []
        return [overlaps_key(top_k) for top_k in experiment.top_k]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input(f"run_of_{name}", run_key(experiment, name, key["top_k"]), optional=True)
            for name in experiment.retrievers
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"pairs": [list(pair) for pair in _pairs(context.experiment)]}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        runs, failed = dict[str, pa.Table](), dict[str, Collection[str]]()
        for name in experiment.retrievers:
            artifact = context.current(run_key(experiment, name, key["top_k"]))
            if artifact is not None:
                runs[name], failed[name] = artifact.table(), artifact.manifest.failures
        present = [p for p in _pairs(experiment) if p.first in runs and p.second in runs]
        return TableProduct(overlaps(runs, present, failed))


def _pairs(experiment: Experiment) -> list[Pair]:
    chunkings = dict[str, Sequence[str]]()
    for name in experiment.retrievers:
        # A search with chunks of its own has no units in common with any other.
        located = (f"{UNCHUNKED}:{each}" for each in experiment.located_of(name))
        chunkings[name] = (*experiment.chunkings_of(name), *located)
    if experiment.judge != "evidence":
        # Documents, and given chunks, are the same units whatever is searched.
        chunkings = dict.fromkeys(chunkings, ())
    return pairs(chunkings)


def overlaps_key(top_k: int | str) -> ArtifactKey:
    """Return the overlaps at one cut-off."""
    return ArtifactKey.of("overlaps", top_k=top_k)


class Pair(NamedTuple):
    """Two retrievers, and by what their runs are compared: ``unit`` or ``document``."""

    first: str
    second: str
    compared: str


def pairs(chunkings: Mapping[str, Sequence[str]]) -> list[Pair]:
    """Return every pair of retrievers, in their order.

    Chunks of different chunkings have nothing in common, so their runs are compared by documents.
    """
    return [
        Pair(a, b, UNIT if set(chunkings[a]) == set(chunkings[b]) else DOCUMENT)
        for a, b in combinations(chunkings, 2)
    ]


def overlaps(
    runs: Mapping[str, pa.Table], pairs: Sequence[Pair], failed: Mapping[str, Collection[str]] = {}
) -> pa.Table:
    """Compare runs that are cut at the same top_k, a row a pair.

    A pair is compared on the queries on which neither retriever failed.
    """

    @cache
    def items(retriever: str, compared: str) -> dict[str, set[str]]:
        by_query = defaultdict[str, set[str]](set)
        for query_id, item in column_values(runs[retriever], "query_id", f"{compared}_id"):
            by_query[query_id].add(item)
        return by_query

    rows: list[dict[str, object]] = []
    for first, second, compared in pairs:
        a, b = items(first, compared), items(second, compared)
        left_out = {*failed.get(first, ()), *failed.get(second, ())}
        both = [(a.get(q, set()), b.get(q, set())) for q in (a.keys() | b.keys()) - left_out]
        shares = [len(units & other) / max(len(units), len(other)) for units, other in both]
        overlap = math.fsum(shares) / len(shares) if shares else None
        names = {"retriever_a": first, "retriever_b": second, "compared": compared}
        rows.append({**names, "n_queries": len(shares), "overlap": overlap})
    return OVERLAPS.from_rows(rows)


class ListSimilarities(Stage):
    """How similar the results of a query are to each other, before and after reranking.

    It exists where there is an ``mmr`` retriever. The vectors are those by which that one chooses;
    of other rerankers those of the first, so that they compare.
    """

    name = "list_similarities"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = LIST_SIMILARITIES
    row = "One query: how similar the results of a reranker are, and those of its input."
    group = "runs"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "sentence-transformers"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        if not any(isinstance(config, MMR) for config in experiment.retrievers.values()):
            return []
        return [
            ArtifactKey.of(self.name, retriever=name, top_k=top_k)
            for family in (FAMILY, SECOND_FAMILY)
            for name in experiment.of_family(family)
            for top_k in experiment.top_k
            if top_k > 1
        ]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return retriever_code(experiment, key)

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        (before,) = experiment.retrievers[key["retriever"]].input_names
        return [
            Input("run", run_key(experiment, key["retriever"], key["top_k"])),
            Input("input_run", run_key(experiment, before, key["top_k"])),
            *text_inputs(experiment, key),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        vectors = _config(experiment, key["retriever"]).describe()["document"]
        return {"vectors": vectors, "indexed": indexed_of(experiment, key)}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return _config(context.experiment, key["retriever"]).versions()

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        run, before, *_ = self.inputs(context.experiment, key)
        ranked = context.artifact(run.key)
        values = {
            name: _similarities(context, key["retriever"], context.artifact(item.key).table())
            for name, item in (("similarity", run), ("input_similarity", before))
        }
        query_ids = set().union(*values.values()) - ranked.manifest.failures.keys()
        rows: list[dict[str, object]] = [
            {"query_id": query_id, **{n: by_query.get(query_id) for n, by_query in values.items()}}
            for query_id in sorted(query_ids)
        ]
        return TableProduct(LIST_SIMILARITIES.from_rows(rows))


def _similarities(context: StageContext, retriever: str, run: pa.Table) -> dict[str, float | None]:
    """Return query id -> the mean cosine of its results, at most top_k of them."""
    texts = texts_by_chunk(context, retriever)
    read = [texts[chunk_id] for chunk_id in run.column("chunk_id").to_pylist()]
    config = _config(context.experiment, retriever)
    vectors = config.encoder(context.workspace(retriever)).encode(read, kind="document")
    rows = values_by_query(run.column("query_id"), range(run.num_rows))
    return {query_id: intra_list_similarity(vectors[n], len(n)) for query_id, n in rows.items()}


def _config(experiment: Experiment, retriever: str) -> MMR:
    """Return the retriever itself, or the first one for diversity."""
    configs = (experiment.retrievers[retriever], *experiment.retrievers.values())
    return next(config for config in configs if isinstance(config, MMR))


def intra_list_similarity(vectors: Vectors, k: int) -> float | None:
    """Return the mean cosine of all pairs of the first ``k`` results; None for fewer than two.

    With S the sum of n unit vectors, the cosines of all ordered pairs add up to |S|^2, of which n
    are of a vector with itself: the mean is (|S|^2 - n) / (n (n - 1)).
    """
    first = vectors[:k].astype(np.float64)
    n = len(first)
    if n < 2:
        return None
    total = first.sum(axis=0)
    squares = float((first * first).sum())
    return (float((total * total).sum()) - squares) / (n * (n - 1))
