"""``list_similarities``: how alike the results of rerankers are, where one is for diversity.

The mean similarity of all pairs of a list (Ziegler, McNee, Konstan and Lausen, WWW 2005, add them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rag_assets.code_versions.closure import Root
from rag_assets.engine.latency_sample import values_by_query
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct, retriever_code
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.cache_fill import Vectors
from rag_assets.retrieval.reranking.diversity import MMR
from rag_assets.retrieval.reranking.stage import FAMILY, SECOND_FAMILY, texts_by_chunk, texts_key
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import LIST_SIMILARITIES
from rag_assets.store.artifacts import ArtifactKey


class ListSimilarities(Stage):
    """How alike the results of a reranker are to one another, before and after it.

    It exists where there is an ``mmr`` retriever. The vectors are those by which that one chooses;
    of other rerankers those of the first, so that they compare.
    """

    name = "list_similarities"
    family: ClassVar[str] = FAMILY
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = LIST_SIMILARITIES
    row = "One query: how alike the results of a reranker, and of its input, are."
    group = "runs"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "sentence-transformers"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        if not any(isinstance(config, MMR) for config in experiment.retrievers.values()):
            return []
        return [
            ArtifactKey.of(self.name, retriever=name, top_k=top_k)
            for name in experiment.of_family(self.family)
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
            Input("texts", texts_key(experiment, key["retriever"])),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"vectors": _config(context.experiment, key["retriever"]).describe()["document"]}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return _config(context.experiment, key["retriever"]).versions()

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        inputs = self.inputs(context.experiment, key)
        run, before, _ = (context.artifact(item.key) for item in inputs)
        values = {
            name: _similarities(context, key["retriever"], ranking.table())
            for name, ranking in (("similarity", run), ("input_similarity", before))
        }
        query_ids = set().union(*values.values()) - run.manifest.failures.keys()
        rows: list[dict[str, object]] = [
            {"query_id": query_id, **{n: by_query.get(query_id) for n, by_query in values.items()}}
            for query_id in sorted(query_ids)
        ]
        return TableProduct(LIST_SIMILARITIES.from_rows(rows))


class SecondListSimilarities(ListSimilarities):
    """How alike the results are of a reranker that reads a reranker."""

    name = "second_list_similarities"
    family = SECOND_FAMILY


SIMILARITIES = (ListSimilarities.name, SecondListSimilarities.name)
"""All assets of this kind."""


def _similarities(context: StageContext, retriever: str, run: pa.Table) -> dict[str, float | None]:
    """Return query id -> the mean cosine of its results, at most top_k of them."""
    texts = texts_by_chunk(context, retriever)
    read = [texts[chunk_id] for chunk_id in run.column("chunk_id").to_pylist()]
    config = _config(context.experiment, retriever)
    vectors = config.document_vectors(read, context.workspace(retriever))
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
