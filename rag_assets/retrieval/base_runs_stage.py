"""What runs of lexical and embedding retrievers share: an index, queries, and a search.

Which document and parent each chunk of an index belongs to is kept inside the index's folder: so a
search needs the index and nothing else, and what a run depends on is what Dagster shows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.chunking.index_texts import OF_CHUNK
from rag_assets.chunking.stage import index_inputs, indexed_fields
from rag_assets.engine.latency_sample import values_by_query
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Digests
from rag_assets.engine.stage_context import Need, Part, Ranked, StageContext
from rag_assets.engine.stage_context import Search as SearchOne
from rag_assets.experiment.experiment import Experiment
from rag_assets.options import MAX_DEPTH
from rag_assets.ordering import Hits, Positions
from rag_assets.query_sets.stage import writing_parts
from rag_assets.retrieval.base import BaseRetriever, Report, Searcher
from rag_assets.retrieval.runs_stage import RetrieverStage, RunsStage
from rag_assets.retrieval.search_steps_stage import (
    factors_of,
    filters_of,
    step_inputs,
    with_own_steps,
)
from rag_assets.retrieval.spread_search import spread
from rag_assets.retrieval.unit_ranking import (
    Search,
    UnitRanking,
    allowed_positions,
    time_weighted_ranking,
)
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.canonical import rows_at
from rag_assets.store.large_tables import ROWS_AT_ONCE, columned
from rag_assets.store.parquet_files import read_parquet

UNITS = "units"
UNITS_FILE = f"{UNITS}.parquet"

UNIT_COLUMNS = ("chunk_id", "document_id", "parent_chunk_id")
"""What a search needs of each chunk."""


class IndexStage(RetrieverStage):
    """The index of one retriever over the texts of its chunking."""

    kinds: ClassVar[frozenset[str]] = frozenset()
    group = "search"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return index_inputs(experiment, experiment.chunking_of(key["retriever"]))

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        indexed = indexed_fields(experiment, experiment.chunking_of(key["retriever"]))
        return {**_config(context, key["retriever"]).index_options(), "indexed": indexed}


class BaseRuns(RunsStage):
    """One partition a retriever and top_k, cut from the retriever's ranking.

    The family has an asset of indexes and one of queries, named after it. ``of_index`` is the
    projection of an index that a search reads.
    """

    kinds_by: ClassVar[tuple[str, ...]] = ("search_kind",)
    of_index: ClassVar[str] = "all"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("index", index_key(self.family, key["retriever"]), self.of_index),
            Input("queries", queries_key(self.family, key["retriever"])),
            *step_inputs(experiment, key["retriever"]),
        ]

    def input_digests(self, context: StageContext, key: ArtifactKey) -> Digests:
        return with_own_steps(context, key["retriever"], super().input_digests(context, key))

    def ranking_config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        options = _config(context, key["retriever"]).search_config()
        return {**super().ranking_config(context, key), **options}

    def rank(self, context: StageContext, need: Need) -> Ranked:
        retriever, _, depth = need
        config, index = _config(context, retriever), _index(context, self.family, retriever)
        searched = context.artifact(queries_key(self.family, retriever))
        queries = searched.table()
        searcher = self.sharded(context, config.open(index.folder))
        with context.progress(f"search {retriever}", queries.num_rows) as advance:
            ranking = self._ranking(context, retriever, searcher, queries, advance)
            if not _has_variants(queries):
                table = ranking.table(queries.column("query_id").to_pylist(), depth)
            else:
                rows = list(map(str, range(queries.num_rows)))
                table = ranking.table(rows, config.variant_candidates)
                factors = factors_of(context, retriever)
                # Scores are weighted once, when there is one for each unit.
                table = _fused(config, table, queries, depth if factors is None else MAX_DEPTH)
                if factors is not None:
                    table = time_weighted_ranking(table, factors, depth)
        return Ranked(table, searched.manifest.failures)

    def searcher(self, context: StageContext, need: Need, query_ids: Sequence[str]) -> SearchOne:
        retriever, config = need.retriever, _config(context, need.retriever)
        queries = context.artifact(queries_key(self.family, retriever)).table()
        rows = values_by_query(queries.column("query_id"), range(queries.num_rows))
        searcher = config.open(_index(context, self.family, retriever).folder)
        ranking = self._ranking(context, retriever, searcher, queries)
        units = config.variant_candidates if _has_variants(queries) else need.depth
        return lambda query_id: ranking.hits(rows[query_id], units)

    def parts_before(self, context: StageContext, retriever: str, top_k: int) -> list[Part] | None:
        return writing_parts(context, retriever)

    @abstractmethod
    def search_inputs(self, queries: pa.Table) -> Any:  # noqa: ANN401 (whatever the family searches for)
        """Return what the searchers of the family take for these rows."""

    def sharded(self, context: StageContext, searcher: Searcher[Any]) -> Searcher[Any]:
        """Return a searcher with the same hits, by workers elsewhere where that is worth it."""
        return spread(searcher, context.compute)

    def _ranking(
        self,
        context: StageContext,
        retriever: str,
        searcher: Searcher[Any],
        queries: pa.Table,
        report: Report | None = None,
    ) -> UnitRanking:
        """Return the search with the retriever's filters and ages; of variants without ages."""
        index = _index(context, self.family, retriever)
        units = load_units(index.folder, searcher.chunk_ids)
        filters = filters_of(context, retriever)
        allowed = None
        if filters is not None:
            allowed = allowed_positions(filters, queries.column("query_id").to_pylist(), units)

        def part(positions: Positions) -> Search | None:
            some = searcher.restricted_to(positions)
            return self._search(some, queries) if some is not None else None

        return UnitRanking(
            self._search(searcher, queries, report),
            units,
            context.experiment.judge,
            allowed,
            None if _has_variants(queries) else factors_of(context, retriever),
            part,
        )

    def _search(
        self, searcher: Searcher[Any], queries: pa.Table, report: Report | None = None
    ) -> Search:
        def search(numbers: Sequence[int], depth: int) -> list[Hits]:
            rows = queries.take(pa.array(numbers, pa.int64()))
            return searcher.search(self.search_inputs(rows), depth, report)

        return search


def _config(context: StageContext, retriever: str) -> BaseRetriever:
    return BaseRetriever.lookup(retriever, context.experiment.retrievers)


def _index(context: StageContext, family: str, retriever: str) -> Artifact:
    return context.artifact(index_key(family, retriever))


def index_key(family: str, retriever: str) -> ArtifactKey:
    """Return the index of one retriever."""
    return ArtifactKey.of(f"{family}_index", retriever=retriever)


def queries_key(family: str, retriever: str) -> ArtifactKey:
    """Return the queries that one retriever searches for."""
    return ArtifactKey.of(f"{family}_queries", retriever=retriever)


def save_units(folder: Path, chunks: pa.Table) -> None:
    """Write the ids of all chunks, their documents and parents, in the order of the chunks' ids.

    Of several texts of a chunk, whose each is too.
    """
    names = [name for name in (*UNIT_COLUMNS, OF_CHUNK) if name in chunks.column_names]
    units, order = chunks.select(names), pc.sort_indices(chunks["chunk_id"]).to_numpy()
    options: dict[str, Any] = {"compression": "zstd", "write_statistics": False}
    with pq.ParquetWriter(folder / UNITS_FILE, units.schema, **options) as writer:
        for rows in np.array_split(order.astype(np.int64), len(order) // ROWS_AT_ONCE + 1):
            writer.write_table(rows_at(units, rows))


def load_units(folder: Path, chunk_ids: Sequence[str]) -> pa.Table:
    """Return the ids of these chunks, of their documents and parents, in the same order.

    Of a chunk that is found by several texts, which an index names by ids of their own, there is
    its id for each.
    """
    units = read_parquet(folder / UNITS_FILE)
    wanted, stored = columned(chunk_ids), units.column("chunk_id")
    if not stored.equals(wanted):  # an index keeps its chunks in the same order
        units = units.take(pc.index_in(wanted, stored.combine_chunks()))
    if OF_CHUNK not in units.column_names:
        return units
    return units.drop_columns("chunk_id").rename_columns({OF_CHUNK: "chunk_id"})


def _has_variants(queries: pa.Table) -> bool:
    return bool(pc.max(queries.column("variant")).as_py())


def _fused(config: BaseRetriever, table: pa.Table, queries: pa.Table, depth: int) -> pa.Table:
    """Return one ranking a query out of rankings that are named by the row of a variant."""
    from rag_assets.retrieval.fusion.methods import fuse_variants  # few experiments have variants

    rows = pc.cast(table["query_id"], pa.int64())
    place = table.column_names.index("query_id")
    rankings = table.set_column(place, "query_id", queries["query_id"].take(rows))
    variants = queries["variant"].take(rows).to_numpy().astype(np.int64)
    weights = config.variant_weights or ()
    return fuse_variants(rankings, variants, config.variants, depth=depth, weights=weights)
