"""What a partition is made of: its inputs, and all that determines it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_assets.called.asked import ALWAYS, AskedOptions
from rag_assets.errors import StoreError
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.artifacts import DEPTH_MARK, ArtifactKey, ArtifactStore, Manifest
from rag_assets.store.atomic import WriteRecord, write_record
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
        is_read: False for an edge that this partition has because others of its stage read it: it
            must be there to compute, and what it holds is no part of the recipe.
        edge: the partition on which Dagster sees the consumer depend in place of ``key``, and whose
            data version tells of both. Dagster maps no chunking to cells of retriever x top_k.
    """

    role: str
    key: ArtifactKey
    projection: str = "all"
    optional: bool = False
    is_read: bool = True
    edge: ArtifactKey | None = None


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


ATTEMPT = "attempt"
"""Key of a recipe's configuration; absent for the first attempt."""

UNANSWERED = "unanswered"
"""In the facts of what was asked: how many queries a server did not answer; absent where none."""

SERVED_MODELS = "served_models"
"""Fact of an artifact: the names that a server gave the model, in the order of its replies."""

RANKINGS = "rankings"


class Attempts:
    """The numbers of an experiment's attempts, by the fingerprint of the first one."""

    def __init__(
        self, folder: Path, store: ArtifactStore, write: WriteRecord = write_record
    ) -> None:
        """Use ``folder``; it is created by the first attempt that is counted."""
        self._write = write
        self._folder = folder
        self._store = store

    @cached_property
    def _numbers(self) -> dict[str, int]:
        files = self._folder.glob("*.txt") if self._folder.is_dir() else ()
        return {file.stem: _number(file) for file in files}

    def of(self, first: Recipe) -> int:
        """Return the number of the attempt that counts for this experiment; 0 is the first."""
        return self._numbers.get(first.fingerprint, 0)

    def numbered(self, recipe: Recipe, first: Recipe | None = None) -> Recipe:
        """Return a recipe with the number of the latest attempt at ``first``, else at itself."""
        return _with(recipe, self.of(first or recipe))

    def before(self, recipe: Recipe) -> Recipe | None:
        """Return a numbered recipe with the number of the attempt before; None: it is the first."""
        number = int(recipe.config.get(ATTEMPT, 0))
        return _with(recipe, number - 1) if number else None

    def add(self, recipe: Recipe) -> None:
        """Count a further attempt at a recipe, numbered or not.

        Numbers at which another experiment was left without an answer too are passed over.
        """
        first = _with(recipe, 0)
        number = self.of(first) + 1
        while self._is_unanswered(_with(first, number)):
            number += 1
        self._keep(first, number)

    def _is_unanswered(self, recipe: Recipe) -> bool:
        name, store = recipe.fingerprint, self._store
        artifacts = [store.find(recipe.stage, name)]
        for depth in store.depths(RANKINGS, name):
            artifacts.append(store.find(RANKINGS, f"{name}{DEPTH_MARK}{depth}"))
        return any(item.manifest.facts.get(UNANSWERED) for item in artifacts if item is not None)

    def _keep(self, first: Recipe, number: int) -> None:
        name = first.fingerprint
        file = self._folder / f"{name}.txt"

        def later(there: bytes | None) -> str:
            """Return the greater of the number and what another machine counted meanwhile."""
            text = (there or b"").strip()
            return f"{max(number, int(text) if text.isdigit() else 0)}\n"

        self._numbers[name] = int(self._write(file, f"{number}\n", later))


def _with(recipe: Recipe, number: int) -> Recipe:
    """Return a recipe with the number of an attempt, and without one for the first."""
    config = {name: value for name, value in recipe.config.items() if name != ATTEMPT}
    return replace(recipe, config={**config, ATTEMPT: number} if number else config)


def _number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except ValueError as error:
        raise StoreError(
            f"{file}: is damaged, it has no number; write the number of retries "
            "of the failed queries into it, or delete it to count from 0"
        ) from error


class Revisions:
    """When evaluations began to ask what has ``revision: always``, by its options.

    A fingerprint needs a revision, and looking must ask nobody: so an evaluation writes one down
    at its beginning, a small file for each; plans, sensors and automation read it.
    """

    def __init__(self, folder: Path, write: WriteRecord = write_record) -> None:
        """Use ``folder``; it is created when the first revision is kept."""
        self._write = write
        self._folder = folder

    def of(self, asked: object) -> str | None:
        """Return what is known of the state in which something is asked; nobody is asked for it.

        Of ``always`` what was kept last; empty: no evaluation began yet.
        """
        if not isinstance(asked, AskedOptions) or asked.revision != ALWAYS:
            return asked.revision if isinstance(asked, AskedOptions) else None
        try:
            return self._file(asked).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def keep(self, asked: AskedOptions) -> None:
        """Keep that it is asked now, in place of the last time."""
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        self._write(self._file(asked), now, lambda _: now)

    def _file(self, asked: AskedOptions) -> Path:
        return self._folder / f"{fingerprint([asked.asked_as()])}.txt"
