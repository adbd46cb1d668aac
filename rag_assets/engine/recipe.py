"""What a partition is made of: its inputs, and all that determines it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.artifacts import ArtifactKey, Manifest
from rag_assets.store.canonical import fingerprint


@dataclass(frozen=True)
class Input:
    """One upstream partition.

    Attributes:
        role: what it is to the consumer; never a retriever's name, so that renaming changes no
            fingerprint.
        key: the upstream partition.
        projection: the part of it that matters; another part may change without consequence.
        optional: whether the consumer can do without it.
    """

    role: str
    key: ArtifactKey
    projection: str = "all"
    optional: bool = False


@dataclass(frozen=True)
class Recipe:
    """All that determines an artifact; its hash is the fingerprint."""

    stage: str
    code_version: str
    config: Mapping[str, Any]
    inputs: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the recipe."""
        parts = [self.stage, self.code_version, self.config, self.inputs, self.versions]
        return fingerprint([SCHEMA_VERSION, *parts])


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
