"""Which documents each filter lets through.

``query_filters``: those that queries have by hand; ``written_filters``: those that a language
model wrote for query sets.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts import Fail
from rag_assets.evaluation.query_filters import (
    FIELD,
    QUERY_FILTERS,
    WRITTEN_FILTERS,
    Filter,
    filter_rows,
    filters_by_hand,
    query_filters,
    without_documents,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.self_query import SelfQuerySet
from rag_assets.query_sets.stage import DOCUMENT_FIELDS_KEY, answers_key
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.sources.fields import note
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

QUERY_FILTERS_KEY = ArtifactKey.of("query_filters")
WRITTEN_FILTERS_KEY = ArtifactKey.of("written_filters")

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
        used = {filters_key(experiment, name) for name in experiment.retrievers}
        return [QUERY_FILTERS_KEY] if QUERY_FILTERS_KEY in used else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("queries", QUERIES_KEY, "metadata"), Input("documents", DOCUMENTS_KEY)]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        queries = context.artifact(QUERIES_KEY).table()
        documents = context.artifact(DOCUMENTS_KEY).table()
        table = query_filters(queries, documents, _fail(context.experiment))
        n_queries = sum(len(query_ids) for query_ids in table["query_ids"].to_pylist())
        facts = {"notes": note(*_LONELY, without_documents(table)), "n_queries": n_queries}
        return TableProduct(table, facts)


class WrittenFilters(Stage):
    """Exists where a retriever obeys filters of a query set in which a model writes them.

    One partition: Dagster ties no query set to cells of retriever x top_k. Notes compare the
    filters with those that the queries have by hand.
    """

    name = "written_filters"
    schema = WRITTEN_FILTERS
    row = "One filter that a model wrote: the queries that have it, the documents that match it."
    group = "search"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [WRITTEN_FILTERS_KEY] if _self_queries(experiment) else []

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return [root_of(SelfQuerySet)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        names = enumerate(_self_queries(experiment))
        return [
            *(Input(f"answers_{number}", answers_key(name)) for number, name in names),
            Input("fields", DOCUMENT_FIELDS_KEY),
            Input("queries", QUERIES_KEY, "metadata"),
            Input("documents", DOCUMENTS_KEY),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, object]:
        sets = _self_queries(context.experiment)
        return {"query_sets": [[name, config.fields] for name, config in sets.items()]}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        fail = _fail(context.experiment)
        by_hand = filters_by_hand(context.artifact(QUERIES_KEY).table(), fail)
        documents = context.artifact(DOCUMENTS_KEY).table()
        fields = context.artifact(DOCUMENT_FIELDS_KEY).table()
        rows: list[dict[str, object]] = []
        notes: list[str] = []
        for name, config in _self_queries(context.experiment).items():
            written = config.written(context.artifact(answers_key(name)).table(), fields)
            own = filter_rows(written, documents, fail)
            rows += ({"query_set": name, **row} for row in own)
            lonely = without_documents(QUERY_FILTERS.from_rows(own))
            told = [*note(*_LONELY, lonely), *_compared(written, by_hand)]
            notes += (f"{name}: {line}" for line in told)
        return TableProduct(WRITTEN_FILTERS.from_rows(rows), {"notes": notes})


def _compared(written: Mapping[str, Filter], by_hand: Mapping[str, Filter]) -> list[str]:
    """Return how filters of a model agree with those by hand; nothing where there are none."""
    if not by_hand:
        return []
    same = sum(written.get(query_id) == own for query_id, own in by_hand.items())
    none = len(by_hand.keys() - written.keys())
    alone = len(written.keys() - by_hand.keys())
    return [
        f"of {len(by_hand)} filters by hand the model wrote {same} alike, "
        f"{len(by_hand) - same - none} otherwise, {none} not; and {alone} for other queries"
    ]


def _self_queries(experiment: Experiment) -> dict[str, SelfQuerySet]:
    """Return the query sets whose filters a retriever obeys, in the order of the experiment."""
    used = {
        experiment.query_set_of(name)
        for name in experiment.retrievers
        if filters_key(experiment, name) == WRITTEN_FILTERS_KEY
    }
    sets = experiment.query_sets.items()
    return {name: one for name, one in sets if name in used and isinstance(one, SelfQuerySet)}


def _fail(experiment: Experiment) -> Fail:
    return lambda problem: DataError(problem, file=experiment.dataset.query_files()[0], key=FIELD)


def filters_key(experiment: Experiment, retriever: str) -> ArtifactKey | None:
    """Return the filters that a retriever obeys; None: it obeys none."""
    if not uses_filters(experiment, retriever):
        return None
    query_set = experiment.query_sets.get(experiment.query_set_of(retriever))
    if isinstance(query_set, SelfQuerySet):
        return WRITTEN_FILTERS_KEY
    return QUERY_FILTERS_KEY


def filters_of(context: StageContext, retriever: str) -> pa.Table | None:
    """Return the filters that a retriever obeys, as a search reads them; None: none."""
    key = filters_key(context.experiment, retriever)
    if key is None:
        return None
    table = context.artifact(key).table()
    if key == WRITTEN_FILTERS_KEY:
        table = table.filter(pc.field("query_set") == context.experiment.query_set_of(retriever))
    return table


def uses_filters(experiment: Experiment, retriever: str) -> bool:
    """Return whether a base retriever restricts queries to what their filters let through."""
    config = experiment.retrievers[retriever]
    return isinstance(config, BaseRetriever) and bool(config.filters)
