"""Where the store and the local state lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rag_assets.errors import StoreError
from rag_assets.plain_text import shortened
from rag_assets.regular_files import special_kind, unusable
from rag_assets.store.remote.address import Address
from rag_assets.store.remote.mirror import make_working_copy

DEFAULT_STORE = Path("data") / "store"


@dataclass(frozen=True)
class StoreSettings:
    """Two places: ``store`` for artifacts, ``state_dir`` for what must be on a local disk.

    ``state_dir`` holds the Dagster instance, ``warehouse.duckdb``, locks and the list of known
    experiments. Of a remote store, ``store`` is the working copy.
    """

    store: Path
    state_dir: Path

    @classmethod
    def resolve(
        cls, store: Path | str | None = None, *, below: Path | None = None
    ) -> StoreSettings:
        """Return the settings in force.

        Order: the argument (holds both), the environment variables ``RAG_ASSETS_STORE`` and
        ``RAG_ASSETS_STATE_DIR``, ``data/store`` below the working directory. The working copy of
        ``s3://bucket/prefix`` lies in ``RAG_ASSETS_STATE_DIR``, else below ``data/store``.

        Args:
            store: a folder or such an address.
            below: where ``data/store`` lies, in place of the working directory.

        Raises:
            UsageError: the store is neither a folder nor such an address.
            StoreError: a folder is none, or cannot be; or the working copy cannot be made.
        """
        address = Address.of(str(store or os.environ.get("RAG_ASSETS_STORE") or ""))
        default = (below or Path()) / DEFAULT_STORE
        if address is not None:
            return cls._remote(address, os.environ.get("RAG_ASSETS_STATE_DIR"), default)
        if store is not None:
            root = _checked(Path(store))
            return cls(root, root)
        root = _checked(Path(os.environ.get("RAG_ASSETS_STORE") or default))
        return cls(root, _checked(Path(os.environ.get("RAG_ASSETS_STATE_DIR") or root)))

    @classmethod
    def at(cls, store: str, state_dir: str) -> StoreSettings:
        """Return the settings with two places that are given, of which the store may be remote.

        Raises:
            UsageError: the store is neither a folder nor an address.
            StoreError: a folder is none, or cannot be; or the working copy cannot be made.
        """
        address = Address.of(store)
        if address is None:
            return cls(_checked(Path(store)), _checked(Path(state_dir)))
        return cls._remote(address, state_dir, DEFAULT_STORE)

    @classmethod
    def _remote(cls, address: Address, state_dir: str | None, default: Path) -> StoreSettings:
        state = _checked(Path(state_dir or default))
        # Without a state folder of its own, the working copy holds the state too.
        is_copy = state.name == address.folder_name
        copy = state if is_copy else state / "remote" / address.folder_name
        make_working_copy(address, copy)
        return cls(copy, state if state_dir else copy)

    @property
    def dagster_home(self) -> Path:
        """Folder of the Dagster instance: ``DAGSTER_HOME``, else ``dagster`` in the state."""
        return Path(os.environ.get("DAGSTER_HOME") or self.state_dir / "dagster")

    @property
    def has_dagster_home(self) -> bool:
        """Whether the user runs a Dagster instance of their own."""
        return bool(os.environ.get("DAGSTER_HOME"))

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.state_dir / "warehouse.duckdb"

    @property
    def locks(self) -> Path:
        """Folder of lock files."""
        return self.state_dir / "locks"

    @property
    def code_versions(self) -> Path:
        """Folder of what was found out of the source; see ``rag_assets.code_versions``."""
        return self.state_dir / "code_versions"

    @property
    def registry(self) -> Path:
        """List of the experiments that were evaluated, by name."""
        return self.state_dir / "experiments.json"


def _checked(folder: Path) -> Path:
    """Return the absolute path of a folder that is there, or could be made."""
    folder = folder.absolute()
    reason = unusable(folder)
    if reason is None and any("\\" in part for part in folder.parts[1:]):
        reason = "DuckDB takes the backslash in its path for the end of a folder's name"
    if reason is None:
        there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        if not there.is_dir():
            reason = f"{there} is {special_kind(there) or 'a file'}, not a folder"
    if reason is not None:
        raise StoreError(f"cannot use the store {shortened(str(folder))}: {reason}")
    return folder
