"""What a stage is: an asset of the graph, its partitions, its exact inputs, its computation.

And what is written into an artifact besides its content: what made it, and its digests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.outgoing import NO_WORK, ExpectedWork
from rag_assets.engine.recipe import Input, Recipe, manifest_of
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.package_versions import version
from rag_assets.schemas import TableSchema
from rag_assets.store.artifacts import Artifact, ArtifactKey, Block, Manifest
from rag_assets.store.blocks import similar_artifacts
from rag_assets.store.canonical import fingerprint, projection_digests


@dataclass(frozen=True)
class FolderProduct:
    """A computed artifact that is a folder, such as an index.

    ``write`` fills an empty folder and returns the number of rows and facts worth showing. The
    files must be the same, byte for byte, for the same inputs. ``carry_over_file`` names a
    file that only the next such computation reads: the projection
    :data:`rag_assets.store.artifacts.WITHOUT_CARRY_OVER` is of all others.
    """

    write: Callable[[Path], tuple[int, Mapping[str, Any]]]
    carry_over_file: str = ""


@dataclass(frozen=True)
class TableProduct:
    """A computed artifact that is a table, with facts worth showing (``notes`` are for people).

    ``failures`` maps a query that could not be answered to the reason. ``blocks`` are those that
    the table was put together from, where the stage computes by blocks.
    """

    table: pa.Table
    facts: Mapping[str, Any] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    blocks: Sequence[Block] = ()


Product = TableProduct | FolderProduct

Digests = Iterator[tuple[str, str | None]]
"""Roles and digests of what is read; None: it is required and not in the store."""


class Stage(ABC):
    """One asset of the graph.

    Attributes:
        name: the asset's name.
        made_for: a property of an experiment: what there is a partition for, or, of a stage without
            dimensions, what it is used for if it is not empty; a stage may have :meth:`keys` of its
            own instead.
        dimensions: its partition dimensions: none, ``chunking``, ``query_set``, ``retriever``, or
            ``retriever`` and ``top_k``.
        schema: its table; None for a folder.
        row: for people: what one row, or the artifact, is.
        group: the part of the pipeline under which the Dagster UI shows it.
        kinds: what computes or holds it, shown as icons in the Dagster UI.
        packages: those whose versions determine the result.
        projections: parts of the table with a digest of their own; ``all`` always exists.
        batched: whether the missing partitions are computed in one go.
        config_of_inputs: keys of ``config`` that follow from the inputs, and are absent while those
            are missing.
    """

    name: ClassVar[str]
    made_for: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]] = ()
    schema: ClassVar[TableSchema | None] = None
    row: ClassVar[str]
    group: ClassVar[str]
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet"})
    packages: ClassVar[tuple[str, ...]] = ()
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    batched: ClassVar[bool] = False
    config_of_inputs: ClassVar[frozenset[str]] = frozenset()

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        """Return all partitions; empty when the experiment does not use the stage."""
        members = getattr(experiment, self.made_for)
        if self.dimensions:
            return [ArtifactKey.of(self.name, **{self.dimensions[0]: name}) for name in members]
        return [ArtifactKey.of(self.name)] if members else []

    @abstractmethod
    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        """Return the exact upstream partitions of one partition."""

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, Product]]:
        """Compute the given partitions; every required input is in the store."""
        for key in keys:
            yield key, self.compute_one(context, key)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> Product:
        """Compute one partition. A batched stage overrides :meth:`compute` instead."""
        raise NotImplementedError(f"{self.name} computes nothing")

    def similar_artifacts(self, context: StageContext, key: ArtifactKey) -> Iterator[Artifact]:
        """Yield stored artifacts of the stage that are made as this partition is, newest first."""
        made = context.recipe(key)
        if made is not None:
            by = (made.code_version, made.config, made.versions)
            yield from similar_artifacts(context.store, made.stage, *by)

    def own_code(self) -> list[Root]:
        """Return the roots of the stage's own code, whatever an experiment names."""
        return [root_of(type(self), "compute" if self.batched else "compute_one")]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        """Return the roots of what the configuration of a partition names, such as a type."""
        return []

    def code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        """Return the roots of the code that computes a partition; the rest is found from them."""
        return [*self.own_code(), *self.named_code(experiment, key)]

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        """Return which of ``llms`` (None: ``llm``) write a partition.

        What they leave unanswered is asked again in another attempt, whose number is in the recipe.
        """
        return ()

    def kinds_of(self, experiment: Experiment) -> frozenset[str]:
        """Return what computes or holds it in an experiment; ``kinds`` where that is all."""
        asks = any(self.models(experiment, key) for key in self.keys(experiment))
        return self.kinds | {"openai"} if asks else self.kinds

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        """Return the configuration that enters the fingerprint; never a retriever's name."""
        return {}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        """Return the versions of the engines that compute the partition."""
        return {name: version(name) for name in self.packages}

    def input_digests(self, context: StageContext, key: ArtifactKey) -> Digests:
        """Yield what the partition reads.

        An empty role stands for what must be there, but whose digest is no part of the recipe.
        """
        for item in self.inputs(context.experiment, key):
            artifact = context.current(item.key)
            if artifact is not None and item.is_read:
                yield item.role, artifact.manifest.digests[item.projection]
            elif item.is_read and not item.optional:
                yield item.role, None

    def recipe(self, context: StageContext, key: ArtifactKey) -> Recipe | None:
        """Return what determines the partition now; None while a required input is missing."""
        digests: dict[str, str] = {}
        for role, digest in self.input_digests(context, key):
            if digest is None:
                return None
            digests[role] = digest
        recipe = Recipe(
            self.name,
            context.code_version(self.code(context.experiment, key)),
            self.config(context, key),
            digests,
            self.versions(context, key),
        )
        asks = self.models(context.experiment, key)
        return context.attempts.numbered(recipe) if asks else recipe

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        """Return what computing a partition takes and asks of servers at most, as far as known.

        Plans tell it. Nothing that computes may call it: so it is part of no code version.
        """
        return NO_WORK

    def is_complete(self, context: StageContext, key: ArtifactKey) -> bool:
        """Return whether all that consumers read besides the artifact is in the store too."""
        return True

    def data_version(self, context: StageContext, key: ArtifactKey, digest: str) -> str:
        """Return the version by which consumers see whether the partition changed."""
        return digest


class DuckDBStage(Stage):
    """A stage whose table DuckDB computes."""

    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)


def retriever_code(experiment: Experiment, key: ArtifactKey) -> list[Root]:
    """Return the roots of the code of the retriever that a partition is of."""
    return experiment.retrievers[key["retriever"]].code_roots()


def checked(stage: Stage, product: TableProduct) -> TableProduct:
    """Return a product whose table is as its stage declares it.

    Raises:
        SchemaMismatch: it is not.
    """
    if stage.schema is None:
        raise TypeError(f"stage {stage.name} gave a table but declares none")
    return replace(product, table=stage.schema.check(product.table))


def table_manifest(stage: Stage, product: TableProduct, recipe: Recipe) -> Manifest:
    """Return the manifest of a checked table: with the digests of all projections of its stage."""
    table, key = product.table, stage.schema.key if stage.schema else ()
    parts = {"all": table.column_names, **stage.projections}
    digests = dict(zip(parts, projection_digests(table, key, parts.values()), strict=True))
    if product.failures:
        digests["all"] = fingerprint([digests["all"], product.failures])
    manifest = manifest_of(recipe, digests, table.num_rows, product.facts, product.failures)
    return replace(manifest, blocks=product.blocks)


def with_all_digests(stage: Stage, artifact: Artifact) -> Artifact:
    """Return a table with the digests of projections that its stage has had only since it was made.

    A projection is no part of what the table is made from, so the stored table stays up to date.
    """
    manifest = artifact.manifest
    missing = {n: of for n, of in stage.projections.items() if n not in manifest.digests}
    if stage.schema is None or not missing:
        return artifact
    table, types = artifact.table(), {field.name: field.type for field in stage.schema.arrow()}
    for number, name in enumerate(table.column_names):
        if name in types:  # a file names the items of a list otherwise, and digests see types
            table = table.set_column(number, name, table.column(name).cast(types[name]))
    digests = projection_digests(table, stage.schema.key, missing.values())
    every = {**manifest.digests, **dict(zip(missing, digests, strict=True))}
    return replace(artifact, manifest=replace(manifest, digests=every))
