"""What the store holds of a partition, whatever made it: for a plan, which compares."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.pipeline.evaluations import SnapshotEntry, read_current
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore


class Reference(NamedTuple):
    """With what a partition is compared.

    Attributes:
        artifact: that of the last evaluation; None: there is none that can be read.
        lost: fingerprint of the artifact of the last evaluation, where it cannot be read any more.
        damaged: whether that one is still there.
    """

    artifact: Artifact | None
    lost: str | None = None
    damaged: bool = False


class Stored:
    """The artifacts of a store, as one experiment sees them."""

    def __init__(self, store: ArtifactStore, root: Path) -> None:
        """Look into ``store``, and the experiment's folder ``root``; nothing is read yet."""
        self._store, self._root = store, root
        self._artifacts: dict[str, list[Artifact]] = {}

    @cached_property
    def _entries(self) -> dict[ArtifactKey, SnapshotEntry]:
        try:
            evaluation = read_current(self._root)
        except (NotEvaluated, StoreError):
            return {}
        return {entry.key: entry for entry in evaluation.entries}

    def artifacts(self, asset: str) -> list[Artifact]:
        """Return all readable artifacts of an asset, the newest first, whoever wanted them."""
        if asset not in self._artifacts:
            paths = [self._store.objects / asset / name for name in self._store.names(asset)]
            found = [self._store.read(path) for path in paths]
            own = [one for one in found if one is not None]
            own.sort(key=lambda one: (-one.path.stat().st_mtime_ns, one.path.name))
            self._artifacts[asset] = own
        return self._artifacts[asset]

    def reference(self, key: ArtifactKey) -> Reference:
        """Return what is compared with what is wanted now."""
        entry = self._entries.get(key)
        if entry is None:
            return Reference(None)
        path = self._store.root / entry.path
        artifact = self._store.read(path)
        if artifact is None:
            return Reference(None, entry.fingerprint, path.exists())
        return Reference(artifact)
