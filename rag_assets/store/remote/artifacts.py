"""The artifacts of a remote store, as its working copy shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rag_assets.errors import RagAssetsError, StoreError
from rag_assets.store.artifacts import Artifact, ArtifactStore, Manifest
from rag_assets.store.atomic import MANIFEST, TABLE, remove
from rag_assets.store.remote.working_copy import WorkingCopy


@dataclass(frozen=True)
class RemoteFolder(Artifact):
    """A folder of which the manifest is known; ``bring`` fetches it."""

    bring: Callable[[], None]

    @property
    def folder(self) -> Path:
        """The folder with all its files, which are fetched now.

        Raises:
            StoreError: the remote store cannot be used, or what it holds is damaged.
        """
        self.bring()
        return self.path


class RemoteArtifacts(ArtifactStore):
    """Artifacts of which some are here; a table is fetched when it is looked for.

    A folder, such as an index, is fetched when it is used: that it is there, and its manifest, is
    enough to know that it is up to date.
    """

    def __init__(
        self, root: Path, locks: Path, copy: WorkingCopy, before_first: Callable[[], None]
    ) -> None:
        """Use the working copy ``root``.

        Args:
            root: its folder.
            locks: folder of lock files.
            copy: the same, as what fetches and sends.
            before_first: what to do before an artifact is fetched for the first time.
        """
        super().__init__(root, locks)
        self._copy = copy
        self._before_first: Callable[[], None] | None = before_first

    def read(self, path: Path) -> Artifact | None:
        """Return the artifact at a path below the root, or None when it is absent or damaged.

        Raises:
            StoreError: the remote store cannot be used.
        """
        artifact = super().read(path) if (path / MANIFEST).is_file() else None
        if artifact is not None or not self._copy.has(path):
            return artifact
        if self._before_first is not None:
            before, self._before_first = self._before_first, None
            before()
        try:
            manifest = Manifest.from_json(self._copy.manifest(path) or b"")
        except (TypeError, ValueError):
            self._copy.note_damaged(path)
            return None
        remove(path)  # one that is damaged
        if TABLE not in manifest.files:
            return RemoteFolder(path, manifest, partial(self._bring, path))
        self._copy.fetch_artifact(path)
        artifact = super().read(path)
        if artifact is None:
            self._copy.note_damaged(path)
        return artifact

    def _bring(self, path: Path) -> None:
        if (path / MANIFEST).is_file():
            return
        if not self._copy.fetch_artifact(path) or super().read(path) is None:
            remove(path)
            where = f"{self._copy.objects.address.url}/{self._copy.name(path)}"
            raise StoreError(f"{where} is gone or damaged; delete it there and evaluate again")

    def names(self, asset: str) -> set[str]:
        """Return the names of all artifacts of an asset, here or there."""
        folder = self.objects / asset
        first = len(self._copy.name(folder)) + 1
        there = {name[first:].partition("/")[0] for name in self._copy.listing(folder)}
        return super().names(asset) | there

    def write(self, asset: str, fingerprint: str, fill: Callable[[Path], Manifest]) -> Artifact:
        """Keep what ``fill`` writes, to be sent later."""
        artifact = super().write(asset, fingerprint, fill)
        self._copy.note(artifact.path)
        return artifact

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send what the block writes when it ends, well or not; its own failure is the one raised.

        Raises:
            StoreError: the remote store cannot be used.
        """
        try:
            yield
        except RagAssetsError:
            with suppress(StoreError):
                self._copy.flush()
            raise
        self._copy.flush()
