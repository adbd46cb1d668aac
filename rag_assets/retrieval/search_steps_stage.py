"""What stands around a search, for all its queries: which documents filters let through, and ages.

``query_filters``: filters that queries have by hand, and those that a language model wrote for
query sets; ``recency_factors``: by what the scores of each document are multiplied.
Each is one partition, since Dagster ties no query set and no options to cells of retriever x top_k,
and exists where a retriever uses it. An edge of the graph exists for all retrievers of a family or
for none: the recipe of a ranking has its own inputs only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Digests, Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError, allowed_names
from rag_assets.evaluation.query_facts import (
    FIELD,
    QUERY_FILTERS,
    Fail,
    Filter,
    document_fields,
    filter_table,
    filters_by_hand,
    without_documents,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.stage import answers_key
from rag_assets.query_sets.strategies import SelfQuerySet
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.fusion.base import FusedRetriever
from rag_assets.retrieval.recency import Dates, Recency, ages, dates_of
from rag_assets.schemas import FLOAT, TEXT, Column, TableSchema, column_values
from rag_assets.sources.fields import note, shown
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import canonical_json, table_digest

QUERY_FILTERS_KEY = ArtifactKey.of("query_filters")
RECENCY_FACTORS_KEY = ArtifactKey.of("recency_factors")

FILTERS_ROLE, RECENCY_ROLE = "filters", "recency"
_STEPS = {FILTERS_ROLE: QUERY_FILTERS_KEY, RECENCY_ROLE: RECENCY_FACTORS_KEY}
"""Role among the inputs of a ranking -> the artifact of filters, or of ages."""

BY_HAND = ""
"""In place of a query set: the filters that queries have in their file."""

NO_MATCH_NOTE = (
    "query has a filter that no document matches, and finds nothing",
    "queries have a filter that no document matches, and find nothing",
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
"""Fact: query set, or options of ages -> digest of its filters, or of their factors."""


class QueryFilters(Stage):
    """The documents that match each metadata filter of the queries."""

    name = "query_filters"
    schema = QUERY_FILTERS
    row = "One filter: the queries that have it, and the documents that match it."
    group = "search"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [QUERY_FILTERS_KEY] if _filter_sets(experiment) else []

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return [root_of(SelfQuerySet)] if _self_queries(experiment) else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        by_hand = [Input("queries", QUERIES_KEY, "metadata")]
        names = list(_self_queries(experiment))
        answers = [Input(f"answers_{n}", answers_key(name)) for n, name in enumerate(names)]
        return [
            *(by_hand if BY_HAND in _filter_sets(experiment) else []),
            *answers,
            Input("documents", DOCUMENTS_KEY),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, object]:
        sets = _self_queries(context.experiment).items()
        return {"query_sets": [[name, query_set.fields] for name, query_set in sets]}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, fail = context.experiment, _fail(context.experiment)
        filters: dict[str, Mapping[str, Filter]] = {}
        documents, notes = context.artifact(DOCUMENTS_KEY).table(), list[str]()
        if BY_HAND in _filter_sets(experiment):
            filters[BY_HAND] = filters_by_hand(context.artifact(QUERIES_KEY).table(), fail)
        for name, query_set in _self_queries(experiment).items():
            answers = context.artifact(answers_key(name)).table()
            filters[name] = query_set.written(answers, document_fields(documents))
        tables = {name: filter_table(name, rows, documents, fail) for name, rows in filters.items()}
        for name, table in tables.items():
            lines = note(*NO_MATCH_NOTE, without_documents(table))
            notes += (f"{name}: {line}" if name else line for line in lines)
        digests = {name: table_digest(table, QUERY_FILTERS.key) for name, table in tables.items()}
        whole = pa.concat_tables(tables.values()).combine_chunks()
        return TableProduct(whole, {"notes": notes, _DIGESTS: digests})


def _filter_sets(experiment: Experiment) -> set[str]:
    """Return whose filters some retriever obeys."""
    sets = (filter_set(experiment, name) for name in experiment.retrievers)
    return {name for name in sets if name is not None}


def _self_queries(experiment: Experiment) -> dict[str, SelfQuerySet]:
    """Return the query sets whose filters a retriever obeys, in the order of the experiment."""
    used, sets = _filter_sets(experiment), experiment.query_sets.items()
    return {name: block for name, block in sets if name in used and isinstance(block, SelfQuerySet)}


def _fail(experiment: Experiment) -> Fail:
    return lambda problem: DataError(problem, file=experiment.dataset.query_files()[0], key=FIELD)


def filter_set(experiment: Experiment, retriever: str) -> str | None:
    """Return the query set whose filters a retriever obeys, or ``BY_HAND``; None: it obeys none."""
    config = experiment.retrievers.get(retriever)
    if not isinstance(config, BaseRetriever) or not config.filters:
        return None
    name = experiment.query_set_of(retriever)
    return name if isinstance(experiment.query_sets.get(name), SelfQuerySet) else BY_HAND


def filters_of(context: StageContext, retriever: str) -> pa.Table | None:
    """Return the filters that a retriever obeys; None: none."""
    name = filter_set(context.experiment, retriever)
    if name is None:
        return None
    return context.artifact(QUERY_FILTERS_KEY).table().filter(pc.field("query_set") == name)


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
        tables, notes = dict[str, pa.Table](), dict[str, None]()
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
    """Return a line about the documents that have no date, which count as the oldest."""
    names = [f"{name} ({shown(str(v))})" if v else name for name, v in dates.undated.items()]
    what = f"no date of ISO 8601 under `{field}` and"
    singular = f"document has {what} counts as the oldest document"
    return note(singular, f"documents have {what} count as the oldest document", names)


def _no_dates(dates: Dates, recency: Recency, experiment: Experiment, retriever: str) -> DataError:
    if recency.field not in dates.fields:
        problem = f"has the field {allowed_names(recency.field, sorted(dates.fields))}"
    else:
        named = [f"; {name} has {shown(str(v))}" for name, v in dates.undated.items() if v][:1]
        problem = f"has a date of ISO 8601 under '{recency.field}'{''.join(named)}"
    key = f"retrievers.{retriever}.recency.field"
    return DataError(f"no document {problem}", file=experiment.source, key=key)


def _recency_of(experiment: Experiment, retriever: str) -> Recency | None:
    config = experiment.retrievers.get(retriever)
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
    return dict(column_values(rows, "document_id", "factor"))


def step_inputs(experiment: Experiment, retriever: str) -> list[Input]:
    """Return filters and ages where a retriever of the family uses them; read where this does."""
    family = experiment.of_family(experiment.family(retriever))
    steps = [own_steps(experiment, name) for name in family]
    used = {role for of in steps for role, name in of.items() if name is not None}
    read = {role for role, name in own_steps(experiment, retriever).items() if name is not None}
    return [Input(role, key, is_read=role in read) for role, key in _STEPS.items() if role in used]


def with_own_steps(context: StageContext, retriever: str, digests: Digests) -> Digests:
    """Yield digests; of filters and ages those of the part that this retriever uses."""
    names = own_steps(context.experiment, retriever)
    for role, digest in digests:
        name = names.get(role)
        if name is None or digest is None:
            yield role, digest
        else:
            yield role, context.artifact(_STEPS[role]).manifest.facts[_DIGESTS][name]


def own_steps(experiment: Experiment, retriever: str) -> dict[str, str | None]:
    """Return role -> which filters, or ages, a retriever itself uses; None: none, or it is none."""
    recency = _recency_of(experiment, retriever)
    text = None if recency is None else _text(recency)
    return {FILTERS_ROLE: filter_set(experiment, retriever), RECENCY_ROLE: text}
