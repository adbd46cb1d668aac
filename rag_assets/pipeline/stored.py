"""What the store holds of a partition, whatever made it: for a plan, which compares."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.pipeline.evaluations import SnapshotEntry, read_current
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore
from rag_assets.store.atomic import TEMPORARY_MARK


class Reference(NamedTuple):
    """With what a partition is compared.

    Attributes:
        artifact: that of the last evaluation, else the newest one that is stored; None: neither.
        lost: fingerprint of the artifact of the last evaluation, where it cannot be read any more.
        damaged: whether that one is still there.
    """

    artifact: Artifact | None
    lost: str | None = None
    damaged: bool = False


class Stored:
    """The artifacts of one experiment."""

    def __init__(self, store: ArtifactStore) -> None:
        """Look into ``store``; nothing is read yet."""
        self._store = store

    @cached_property
    def _entries(self) -> dict[ArtifactKey, SnapshotEntry]:
        try:
            evaluation = read_current(self._store.root)
        except (NotEvaluated, StoreError):
            return {}
        return {entry.key: entry for entry in evaluation.entries}

    def artifacts(self, key: ArtifactKey) -> list[Artifact]:
        """Return all readable artifacts of a partition, the newest first."""
        folder = self._store.path(key, "").parent
        if not folder.is_dir():
            return []
        paths = [p for p in folder.iterdir() if p.suffix == ".parquet" or "=" not in p.name]
        found = [self._store.read(path) for path in paths if TEMPORARY_MARK not in path.name]
        own = [one for one in found if one is not None and one.manifest.asset == key.asset]
        return sorted(own, key=lambda one: (-one.path.stat().st_mtime_ns, one.path.name))

    def reference(self, key: ArtifactKey) -> Reference:
        """Return what is compared with what is wanted now."""
        entry = self._entries.get(key)
        newest = next(iter(self.artifacts(key)), None)
        if entry is None:
            return Reference(newest)
        path = self._store.root / entry.path
        artifact = self._store.read(path)
        if artifact is None:
            return Reference(newest, entry.fingerprint, path.exists())
        return Reference(artifact)
