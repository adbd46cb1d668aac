"""Where the store and the local state lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.errors import StoreError
from rag_assets.input_files import special_kind, unusable
from rag_assets.plain_text import shortened
from rag_assets.store.atomic import remove_below, write_text
from rag_assets.store.remote import Address

if TYPE_CHECKING:
    from rag_assets.store.remote import LocalCopy

DEFAULT_STORE = Path("data") / "store"


@dataclass(frozen=True)
class StoreSettings:
    """Two places: ``store`` for artifacts, ``state_dir`` for what must be on a local disk.

    ``state_dir`` holds the Dagster instance, ``warehouse.duckdb``, locks and the list of known
    experiments. Of a remote store, whose ``address`` is known, ``store`` is the local copy.
    """

    store: Path
    state_dir: Path
    address: Address | None = None

    @classmethod
    def resolve(
        cls, store: Path | str | None = None, *, below: Path | None = None
    ) -> StoreSettings:
        """Return the settings in force.

        Order: the argument (holds both), the environment variables ``RAG_ASSETS_STORE`` and
        ``RAG_ASSETS_STATE_DIR``, ``data/store`` ``below`` the working directory. The local copy of
        ``s3://bucket/prefix`` lies in ``RAG_ASSETS_STATE_DIR``, else below ``data/store``.
        """
        state = os.environ.get("RAG_ASSETS_STATE_DIR")
        default = (below or Path()) / DEFAULT_STORE
        place = str(store or os.environ.get("RAG_ASSETS_STORE") or default)
        address = Address.of(place)
        if address is not None:
            # Without a state folder of its own, the local copy holds the state too.
            return cls.at(place, state or str(default / "remote" / address.folder_name))
        return cls.at(place, place if store is not None else state or place)

    @classmethod
    def at(cls, store: str, state_dir: str) -> StoreSettings:
        """Return the settings with two places that are given, of which the store may be remote.

        Raises:
            UsageError: the store is neither a folder nor an address.
            StoreError: a folder is none, or cannot be.
        """
        address, state = Address.of(store), _checked(Path(state_dir))
        if address is None:
            return cls(_checked(Path(store)), state)
        holds_both = state.name == address.folder_name
        return cls(state if holds_both else state / "remote" / address.folder_name, state, address)

    @property
    def place(self) -> str:
        """The store as people name it: its folder, or its address."""
        return str(self.store) if self.address is None else self.address.url

    @cached_property
    def remote(self) -> LocalCopy | None:
        """The local copy, which fetches and sends; None: the store is a folder."""
        if self.address is None:
            return None
        from rag_assets.store.remote import LocalCopy, Objects

        return LocalCopy(self.store, Objects(self.address))

    def write_record(self, path: Path, text: str, merged: Callable[[bytes | None], str]) -> str:
        """Write a small file that other machines write too, to the remote store first.

        Without one, ``text`` is written. Else ``merged`` is given what the remote store has (None:
        nothing), and returns what is to be there. Returns what was written.
        """
        if self.remote is not None:
            there = self.remote.merge(path, lambda content: merged(content).encode())
            text = (there or b"").decode()
        write_text(path, text)
        return text

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files and folders: in the remote store, and here in the order given."""
        doomed = list(dict.fromkeys(paths))
        if self.remote is not None:
            self.remote.delete(path for path in doomed if path.is_relative_to(self.store))
        remove_below(self.store, doomed)

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
