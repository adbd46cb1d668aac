"""What runs of lexical and embedding retrievers share: an index, queries, and a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.units import unit_ranking
from rag_assets.experiment.experiment import Experiment
from rag_assets.ordering import Hits
from rag_assets.pipeline.latency_sample import Search, values_by_query
from rag_assets.pipeline.rankings import Ranked
from rag_assets.pipeline.stage import Input
from rag_assets.pipeline.stages.index_units import load_units
from rag_assets.pipeline.stages.runs import RunsStage
from rag_assets.query_sets.variant_fusion import VARIANT_RUNS, fuse_variants
from rag_assets.retrievers.base import BaseRetriever
from rag_assets.retrievers.retriever import Searcher
from rag_assets.store.artifacts import Artifact, ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

Report = Callable[[int], None]


class BaseRuns(RunsStage):
    """One partition a retriever and top_k, cut from the retriever's ranking.

    The family has an asset of indexes and one of queries, named after it.
    """

    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.evaluation.units",
        "rag_assets.ordering",
        "rag_assets.query_sets.variant_fusion",
        "rag_assets.pipeline.stages.runs",
        "rag_assets.pipeline.stages.base_runs",
        "rag_assets.pipeline.stages.index_units",
    )

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        """Return the index and the queries."""
        return [
            Input("index", index_key(self.family, key["retriever"])),
            Input("queries", queries_key(self.family, key["retriever"])),
        ]

    def ranking_config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        """Return the judged unit and the options of the search."""
        options = self._config(pipeline.experiment, key["retriever"]).search_config()
        return {**super().ranking_config(pipeline, key), **options}

    def rank(self, pipeline: Pipeline, retriever: str, top_k: int, depth: int) -> Ranked:
        """Search for every query."""
        artifact = pipeline.artifact(index_key(self.family, retriever))
        asked = pipeline.artifact(queries_key(self.family, retriever))
        queries = asked.table()
        has_variants = pc.max(queries.column("variant")).as_py()
        # Variants of a query are searched as queries of their own, named by their row.
        names = range(queries.num_rows) if has_variants else queries.column("query_id").to_pylist()
        searcher = self._open(pipeline, retriever, artifact)
        with pipeline.progress(f"search {retriever}", queries.num_rows) as advance:
            table = unit_ranking(
                list(map(str, names)),
                load_units(artifact.path, searcher.chunk_ids),
                lambda numbers, k: self._search(searcher, queries, numbers, k, advance),
                judge=pipeline.experiment.judge,
                depth=depth,
            )
        if has_variants:
            config = self._config(pipeline.experiment, retriever)
            table = _fused(config, _of_variants(table, queries), depth)
        return Ranked(table, asked.manifest.failures)

    def searcher(
        self, pipeline: Pipeline, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
    ) -> Search:
        """Return the search for the variants of one query."""
        artifact = pipeline.artifact(index_key(self.family, retriever))
        queries = pipeline.artifact(queries_key(self.family, retriever)).table()
        rows = values_by_query(queries.column("query_id"), range(queries.num_rows))
        searcher = self._open(pipeline, retriever, artifact)
        return lambda query_id: self._search(searcher, queries, rows[query_id], depth, None)

    def _open(self, pipeline: Pipeline, retriever: str, index: Artifact) -> Searcher[Any]:
        raise NotImplementedError

    def _search(
        self,
        searcher: Searcher[Any],
        queries: pa.Table,
        numbers: Sequence[int],
        depth: int,
        report: Report | None,
    ) -> list[Hits]:
        raise NotImplementedError

    def _config(self, experiment: Experiment, retriever: str) -> BaseRetriever:
        config = experiment.retrievers[retriever]
        if not isinstance(config, BaseRetriever):
            raise TypeError(f"{retriever} is not a base retriever")
        return config


def _of_variants(table: pa.Table, queries: pa.Table) -> pa.Table:
    """Give rankings that are named by the row of a variant its query and number back."""
    rows = pc.cast(table.column("query_id"), pa.int64())
    columns = {name: table.column(name) for name in table.column_names}
    columns["query_id"] = queries.column("query_id").take(rows)
    columns["variant"] = queries.column("variant").take(rows)
    return VARIANT_RUNS.check(pa.table(columns))


def _fused(config: BaseRetriever, rankings: pa.Table, depth: int) -> pa.Table:
    weights = config.variant_weights if config.variants == "weighted" else None
    return fuse_variants(rankings, config.variants, depth=depth, weights=weights)


def index_key(family: str, retriever: str) -> ArtifactKey:
    """Return the index of one retriever."""
    return ArtifactKey.of(f"{family}_index", retriever=retriever)


def queries_key(family: str, retriever: str) -> ArtifactKey:
    """Return the queries that one retriever searches for."""
    return ArtifactKey.of(f"{family}_queries", retriever=retriever)
