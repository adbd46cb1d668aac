"""``query_filters``: which documents each filter of a query lets through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError
from rag_assets.evaluation.query_filters import (
    FIELD,
    QUERY_FILTERS,
    query_filters,
    without_documents,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.sources.fields import note
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

QUERY_FILTERS_KEY = ArtifactKey.of("query_filters")

_LONELY = (
    "query has a filter that no document matches, so it finds nothing",
    "queries have a filter that no document matches, so they find nothing",
)


class QueryFilters(Stage):
    """Exists where a retriever uses filters; metadata that no filter asks for changes nothing."""

    name = "query_filters"
    schema = QUERY_FILTERS
    row = "One filter: the queries that have it, and the documents that match it."
    group = "search"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        used = any(uses_filters(experiment, name) for name in experiment.retrievers)
        return [QUERY_FILTERS_KEY] if used else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("queries", QUERIES_KEY, "metadata"), Input("documents", DOCUMENTS_KEY)]

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        dataset = context.experiment.dataset

        def fail(problem: str) -> Exception:
            return DataError(problem, file=dataset.query_files()[0], key=FIELD)

        for key in keys:
            queries = context.artifact(QUERIES_KEY).table()
            table = query_filters(queries, context.artifact(DOCUMENTS_KEY).table(), fail)
            n_queries = sum(len(query_ids) for query_ids in table["query_ids"].to_pylist())
            facts = {"notes": note(*_LONELY, without_documents(table)), "n_queries": n_queries}
            yield key, TableProduct(table, facts)


def uses_filters(experiment: Experiment, retriever: str) -> bool:
    """Return whether a base retriever restricts queries to what their filters let through."""
    config = experiment.retrievers[retriever]
    return isinstance(config, BaseRetriever) and bool(config.filters)
