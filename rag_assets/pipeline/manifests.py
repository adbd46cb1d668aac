"""What is written into an artifact besides its content: what made it, and its digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rag_assets.engine.recipe import Recipe
from rag_assets.engine.stage import USED, FolderProduct, Stage, TableProduct
from rag_assets.store.artifacts import Manifest
from rag_assets.store.canonical import file_digests, fingerprint, table_digest


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
    digest = table_digest(table, key)
    if product.failures:
        digest = fingerprint([digest, product.failures])
    digests = {"all": digest}
    for name, columns in stage.projections.items():
        digests[name] = table_digest(table, key, columns)
    manifest = manifest_of(recipe, digests, table.num_rows, product.facts, product.failures)
    return replace(manifest, blocks=product.blocks)


def folder_digests(folder: Path, product: FolderProduct) -> dict[str, str]:
    """Return the digests of the parts of a folder that have one of their own."""
    if not product.aside:
        return {}
    return {USED: fingerprint(file_digests(folder, but=product.aside))}


def manifest_of(
    recipe: Recipe,
    digests: Mapping[str, str],
    rows: int,
    facts: Mapping[str, object],
    failures: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the manifest of an artifact that a recipe made."""
    return Manifest(
        asset=recipe.stage,
        fingerprint=recipe.fingerprint,
        digests=digests,
        config=recipe.config,
        inputs=recipe.inputs,
        versions=recipe.versions,
        rows=rows,
        facts=facts,
        failures=failures or {},
        code_version=recipe.code_version,
    )
