"""Tables of an experiment's files, read for a plan: into memory, not into the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.engine.recipe import Recipe
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.experiment.hosts import clients
from rag_assets.experiment.query_sets import PromptedQuerySet
from rag_assets.pipeline.manifests import checked, table_manifest
from rag_assets.pipeline.reasons import Reason, row_changes
from rag_assets.store.artifacts import Artifact, ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

SOURCES = ("documents", "queries", "qrels")
READ = (*SOURCES, "query_facts")
"""Assets that are read from files in a moment, and so for a plan too."""

FILES = Reason("files changed")


@dataclass(frozen=True)
class _Unstored(Artifact):
    """An artifact that an evaluation would write, in memory."""

    content: pa.Table

    def table(self) -> pa.Table:
        return self.content


def read_now(
    pipeline: Pipeline, stage: Stage, key: ArtifactKey, recipe: Recipe, stored: Artifact | None
) -> list[Reason] | None:
    """Read a table as an evaluation would, and make it the up-to-date one of ``pipeline``.

    Args:
        pipeline: of the plan.
        stage: one of :data:`READ`.
        key: its partition.
        recipe: what determines it now.
        stored: with what it is compared.

    Returns:
        Which of its rows differ; empty for query facts. None where it was not read: with nothing
        stored there is nothing to compare with, neither here nor below. Queries are read also then
        where they tell how often a language model, or a server elsewhere, is asked.

    Raises:
        DataError: the files break their format.
    """
    sets = pipeline.experiment.query_sets.values()
    asks = any(isinstance(one, PromptedQuerySet) for one in sets) or clients(pipeline.experiment)
    if stored is None and not (asks and stage.name == "queries"):
        return None
    _, product = next(iter(stage.compute(pipeline, [key])))
    if not isinstance(product, TableProduct):
        raise TypeError(f"{key} is no table")
    product = checked(stage, product)
    path = pipeline.store.path(key.asset, recipe.fingerprint)
    manifest = table_manifest(stage, product, recipe)
    pipeline.assume(key, _Unstored(path, manifest, product.table))
    if stored is None or stage.schema is None or stage.name not in SOURCES:
        return []
    return row_changes(stage.name, stored.table(), product.table, stage.schema.key)


def with_rows(why: Iterable[Reason], rows: list[Reason]) -> list[Reason]:
    """Put what became of rows in place of the digest of their files."""
    listed = list(why)
    if FILES not in listed:
        return listed
    return [*rows, *(reason for reason in listed if reason != FILES)]
