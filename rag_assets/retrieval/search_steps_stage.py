"""What stands around a search, for all its queries: which documents filters let through, and ages.

``query_filters``: filters that queries have by hand; ``written_filters``: those that a language
model wrote for query sets; ``recency_factors``: by what the scores of each document are multiplied.
Each is one partition, since Dagster ties no query set and no options to cells of retriever x top_k,
and exists where a retriever uses it. An edge of the graph exists for all retrievers of a family or
for none: the recipe of a ranking has its own inputs only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.recipe import Input, Recipe
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError, allowed_names
from rag_assets.evaluation.query_facts import (
    FIELD,
    QUERY_FILTERS,
    WRITTEN_FILTERS,
    Fail,
    filter_rows,
    query_filters,
    without_documents,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.stage import DOCUMENT_FIELDS_KEY, answers_key
from rag_assets.query_sets.strategies import SelfQuerySet
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.recency import Dates, Recency, ages, dates_of
from rag_assets.schemas import FLOAT, TEXT, Column, TableSchema
from rag_assets.sources.fields import note, shown
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import canonical_json, table_digest

QUERY_FILTERS_KEY = ArtifactKey.of("query_filters")
WRITTEN_FILTERS_KEY = ArtifactKey.of("written_filters")
RECENCY_FACTORS_KEY = ArtifactKey.of("recency_factors")

ROLES = {QUERY_FILTERS_KEY: "filters", WRITTEN_FILTERS_KEY: "written_filters"}
"""The roles of filters, by hand and by a model, among the inputs of a ranking."""

RECENCY_ROLE = "recency"

NO_MATCH_NOTE = (
    "query has a filter that no document matches, so it finds nothing",
    "queries have a filter that no document matches, so they find nothing",
)

RECENCY_FACTORS = TableSchema(
    "recency_factors",
    "one document under the `recency` of a retriever",
    ("recency", "document_id"),
    recency=Column(TEXT, "JSON object: the options"),
    document_id=Column(TEXT, "the document"),
    date=Column(TEXT, "its date in UTC, ISO 8601; null: it counts as the oldest", True),
    age=Column(FLOAT, "days from the date to `now`, at least 0"),
    factor=Column(FLOAT, "of scores: 1 - weight + weight 2^(-age / half_life)"),
)

_DIGESTS = "digests"
"""Fact: options -> digest of their factors."""


class QueryFilters(Stage):
    """Which documents each metadata filter of the queries lets through."""

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
        queries, documents = (context.artifact(k).table() for k in (QUERIES_KEY, DOCUMENTS_KEY))
        table = query_filters(queries, documents, _fail(context.experiment))
        n_queries = sum(len(query_ids) for query_ids in table["query_ids"].to_pylist())
        notes = note(*NO_MATCH_NOTE, without_documents(table))
        return TableProduct(table, {"notes": notes, "n_queries": n_queries})


class WrittenFilters(Stage):
    """Which documents the filters that a model wrote let through."""

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
            Input("documents", DOCUMENTS_KEY),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, object]:
        sets = _self_queries(context.experiment)
        return {"query_sets": [[name, config.fields] for name, config in sets.items()]}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        fail = _fail(context.experiment)
        documents = context.artifact(DOCUMENTS_KEY).table()
        fields = context.artifact(DOCUMENT_FIELDS_KEY).table()
        rows: list[dict[str, object]] = []
        notes: list[str] = []
        for name, config in _self_queries(context.experiment).items():
            written = config.written(context.artifact(answers_key(name)).table(), fields)
            of_set = filter_rows(written, documents, fail)
            rows += ({"query_set": name, **row} for row in of_set)
            lonely = without_documents(QUERY_FILTERS.from_rows(of_set))
            notes += (f"{name}: {line}" for line in note(*NO_MATCH_NOTE, lonely))
        return TableProduct(WRITTEN_FILTERS.from_rows(rows), {"notes": notes})


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


def uses_filters(experiment: Experiment, retriever: str) -> bool:
    """Return whether a base retriever restricts queries to what their filters let through."""
    config = experiment.retrievers[retriever]
    return isinstance(config, BaseRetriever) and bool(config.filters)


def filters_key(experiment: Experiment, retriever: str) -> ArtifactKey | None:
    """Return the filters that a retriever obeys; None: it obeys none."""
    if not uses_filters(experiment, retriever):
        return None
    query_set = experiment.query_sets.get(experiment.query_set_of(retriever))
    return WRITTEN_FILTERS_KEY if isinstance(query_set, SelfQuerySet) else QUERY_FILTERS_KEY


def filters_of(context: StageContext, retriever: str) -> pa.Table | None:
    """Return the filters that a retriever obeys, as a search reads them; None: none."""
    key = filters_key(context.experiment, retriever)
    if key is None:
        return None
    table = context.artifact(key).table()
    if key == WRITTEN_FILTERS_KEY:
        table = table.filter(pc.field("query_set") == context.experiment.query_set_of(retriever))
    return table


class RecencyFactors(Stage):
    """The age of each document, and the factor by which its scores are multiplied."""

    name = "recency_factors"
    schema = RECENCY_FACTORS
    row = "One document under the `recency` of a retriever: its age, and the factor of its scores."
    group = "search"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [RECENCY_FACTORS_KEY] if _recencies(experiment) else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("documents", DOCUMENTS_KEY)]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"recency": sorted(_recencies(context.experiment))}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        documents = context.artifact(DOCUMENTS_KEY).table()
        tables: dict[str, pa.Table] = {}
        notes: dict[str, None] = {}
        for text, (name, recency) in sorted(_recencies(context.experiment).items()):
            dates = dates_of(documents, recency.field)
            if not dates.known:
                raise _no_dates(dates, recency, context.experiment, name)
            tables[text] = _factors(text, documents, dates, recency)
            notes |= dict.fromkeys(_notes(dates, recency.field))
        parts = ("document_id", "factor")
        digests = {n: table_digest(t, ("document_id",), parts) for n, t in tables.items()}
        table = pa.concat_tables([RECENCY_FACTORS.empty(), *tables.values()]).combine_chunks()
        return TableProduct(table, {"notes": list(notes), _DIGESTS: digests})


def _factors(text: str, documents: pa.Table, dates: Dates, recency: Recency) -> pa.Table:
    aged = ages(dates.known, recency)
    oldest = max(aged.values())
    rows: list[dict[str, object]] = []
    for name in documents.column("document_id").to_pylist():
        date = dates.known[name].isoformat() if name in dates.known else None
        row = {"recency": text, "document_id": name, "date": date}
        rows.append(row | aged.get(name, oldest)._asdict())
    return RECENCY_FACTORS.from_rows(rows)


def _notes(dates: Dates, field: str) -> list[str]:
    """Return lines about the documents that have no date, which count as the oldest."""
    wrong = [f"{name} ({shown(str(value))})" for name, value in dates.unreadable.items()]
    lines: list[str] = []
    for what, names in (
        (f"no `{field}`", dates.absent),
        (f"a `{field}` that is no date of ISO 8601", wrong),
    ):
        one = f"document has {what} and counts as the oldest document"
        lines += note(one, f"documents have {what} and count as the oldest document", names)
    return lines


def _no_dates(dates: Dates, recency: Recency, experiment: Experiment, retriever: str) -> DataError:
    if recency.field not in dates.fields:
        problem = f"has the field {allowed_names(recency.field, sorted(dates.fields))}"
    else:
        named = [f"; {name} has {shown(str(v))}" for name, v in dates.unreadable.items()][:1]
        problem = f"has a date of ISO 8601 under '{recency.field}'{''.join(named)}"
    key = f"retrievers.{retriever}.recency.field"
    return DataError(f"no document {problem}", file=experiment.source, key=key)


def _recency_of(experiment: Experiment, retriever: str) -> Recency | None:
    config = experiment.retrievers[retriever]
    return config.recency if isinstance(config, BaseRetriever | FusedRetriever) else None


def _recencies(experiment: Experiment) -> dict[str, tuple[str, Recency]]:
    """Return the different options by their text, each with the first retriever that has them."""
    used: dict[str, tuple[str, Recency]] = {}
    for name in experiment.retrievers:
        recency = _recency_of(experiment, name)
        if recency is not None:
            used.setdefault(_text(recency), (name, recency))
    return used


def _text(recency: Recency) -> str:
    return canonical_json(recency.model_dump(mode="json"))


def factors_of(context: StageContext, retriever: str) -> dict[str, float] | None:
    """Return document id -> factor of a retriever's scores; None: it does not weigh by time."""
    recency = _recency_of(context.experiment, retriever)
    if recency is None:
        return None
    table = context.artifact(RECENCY_FACTORS_KEY).table(["recency", "document_id", "factor"])
    rows = table.filter(pc.field("recency") == _text(recency))
    columns = (rows.column(name).to_pylist() for name in ("document_id", "factor"))
    return dict(zip(*columns, strict=True))


def step_inputs(experiment: Experiment, family: str) -> list[Input]:
    """Return filters and ages where a retriever of the family uses them."""
    names = experiment.of_family(family)
    used = {filters_key(experiment, name) for name in names}
    filters = [Input(role, key) for key, role in ROLES.items() if key in used]
    is_aged = any(_recency_of(experiment, name) for name in names)
    return [*filters, *([Input(RECENCY_ROLE, RECENCY_FACTORS_KEY)] if is_aged else [])]


def with_own_steps(context: StageContext, retriever: str, recipe: Recipe) -> Recipe:
    """Return a recipe with the filters and the factors of this retriever, if it has any."""
    own = filters_key(context.experiment, retriever)
    others = {RECENCY_ROLE, *(role for key, role in ROLES.items() if key != own)}
    inputs = {role: digest for role, digest in recipe.inputs.items() if role not in others}
    recency = _recency_of(context.experiment, retriever)
    if recency is not None:
        digests = context.artifact(RECENCY_FACTORS_KEY).manifest.facts[_DIGESTS]
        inputs[RECENCY_ROLE] = digests[_text(recency)]
    return replace(recipe, inputs=inputs)
