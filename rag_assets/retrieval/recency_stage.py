"""``recency_factors``: the age of every document, and by what its scores are multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.recipe import Input, Recipe
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError, allowed_names
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.recency import Dates, Recency, ages, dates_of
from rag_assets.schemas import FLOAT, TEXT, Column, TableSchema
from rag_assets.sources.fields import note, shown
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import canonical_json, table_digest

RECENCY_FACTORS_KEY = ArtifactKey.of("recency_factors")
ROLE = "recency"
"""What the factors are to a ranking."""

RECENCY_FACTORS = TableSchema(
    "recency_factors",
    "one document under the `recency` of a retriever",
    ("recency", "document_id"),
    (
        Column("recency", TEXT, "JSON object: the options"),
        Column("document_id", TEXT, "the document"),
        Column("date", TEXT, "its date in UTC, ISO 8601; null: it counts as the oldest", True),
        Column("age", FLOAT, "days from the date to `now`, at least 0"),
        Column("factor", FLOAT, "of scores: 1 - weight + weight 2^(-age / half_life)"),
    ),
)

_DIGESTS = "digests"
"""Fact: options -> digest of their factors."""

_OLDEST = "and {} as the oldest document"


class RecencyFactors(Stage):
    """Exists where a retriever weighs scores by time; another date changes its own factors only.

    One partition: Dagster ties no options to cells of retriever x top_k. A ranking's recipe has
    the digest of its own rows.
    """

    name = "recency_factors"
    schema = RECENCY_FACTORS
    row = "One document under the `recency` of a retriever: its age, and the factor of its scores."
    group = "search"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [RECENCY_FACTORS_KEY] if _used(experiment) else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("documents", DOCUMENTS_KEY)]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"recency": sorted(_used(context.experiment))}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        documents = context.artifact(DOCUMENTS_KEY).table()
        tables: dict[str, pa.Table] = {}
        notes: dict[str, None] = {}
        for text, (name, recency) in sorted(_used(context.experiment).items()):
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
    texts = {document_id: found.isoformat() for document_id, found in dates.known.items()}
    ids = documents.column("document_id").to_pylist()
    rows: list[dict[str, object]] = [
        {"recency": text, "document_id": one, "date": texts.get(one)}
        | aged.get(one, oldest)._asdict()
        for one in ids
    ]
    return RECENCY_FACTORS.from_rows(rows)


def _notes(dates: Dates, field: str) -> list[str]:
    """Return lines about the documents that have no date."""
    ends = (_OLDEST.format("counts"), _OLDEST.format("count"))
    wrong = [f"{name} ({shown(str(value))})" for name, value in dates.unreadable.items()]
    return [
        *note(
            f"document has no `{field}` {ends[0]}",
            f"documents have no `{field}` {ends[1]}",
            dates.absent,
        ),
        *note(
            f"document has a `{field}` that is no date of ISO 8601 {ends[0]}",
            f"documents have a `{field}` that is no date of ISO 8601 {ends[1]}",
            wrong,
        ),
    ]


def _no_dates(dates: Dates, recency: Recency, experiment: Experiment, retriever: str) -> DataError:
    if recency.field not in dates.fields:
        field = allowed_names(recency.field, sorted(dates.fields))
        problem = f"no document has the field {field}"
    else:
        named = next(iter(dates.unreadable.items()), None)
        found = f"; {named[0]} has {shown(str(named[1]))}" if named is not None else ""
        problem = f"no document has a date of ISO 8601 under '{recency.field}'{found}"
    key = f"retrievers.{retriever}.recency.field"
    return DataError(problem, file=experiment.source, key=key)


def recency_of(experiment: Experiment, retriever: str) -> Recency | None:
    """Return how a retriever weighs scores by time; None: it does not."""
    config = experiment.retrievers[retriever]
    return config.recency if isinstance(config, BaseRetriever | FusedRetriever) else None


def recency_inputs(experiment: Experiment, family: str) -> list[Input]:
    """Return the factors where a retriever of the family weighs by time."""
    used = any(recency_of(experiment, name) for name in experiment.of_family(family))
    return [Input(ROLE, RECENCY_FACTORS_KEY)] if used else []


def with_own_factors(context: StageContext, retriever: str, recipe: Recipe) -> Recipe:
    """Return a recipe in which only the factors of this retriever count, if it has any.

    An edge of the graph exists for all partitions or for none.
    """
    inputs = {role: digest for role, digest in recipe.inputs.items() if role != ROLE}
    recency = recency_of(context.experiment, retriever)
    if recency is not None:
        digests = context.artifact(RECENCY_FACTORS_KEY).manifest.facts[_DIGESTS]
        inputs[ROLE] = digests[_text(recency)]
    return replace(recipe, inputs=inputs)


def factors_of(context: StageContext, retriever: str) -> dict[str, float] | None:
    """Return document id -> factor of a retriever's scores; None: it does not weigh by time."""
    recency = recency_of(context.experiment, retriever)
    if recency is None:
        return None
    table = context.artifact(RECENCY_FACTORS_KEY).table(["recency", "document_id", "factor"])
    own = table.filter(pc.field("recency") == _text(recency))
    columns = (own.column(name).to_pylist() for name in ("document_id", "factor"))
    return dict(zip(*columns, strict=True))


def _used(experiment: Experiment) -> dict[str, tuple[str, Recency]]:
    """Return the different options by their text, each with the first retriever that has them."""
    used: dict[str, tuple[str, Recency]] = {}
    for name in experiment.retrievers:
        recency = recency_of(experiment, name)
        if recency is not None:
            used.setdefault(_text(recency), (name, recency))
    return used


def _text(recency: Recency) -> str:
    return canonical_json(recency.model_dump(mode="json"))
