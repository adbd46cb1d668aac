"""Where the store and the local state lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DEFAULT_STORE = Path("data") / "store"


@dataclass(frozen=True)
class StoreSettings:
    """Two places: ``store`` for artifacts, ``state_dir`` for what must be on a local disk.

    ``state_dir`` holds the Dagster instance, ``warehouse.duckdb``, locks and the list of known
    experiments.
    """

    store: Path
    state_dir: Path

    @classmethod
    def resolve(cls, store: Path | str | None = None) -> StoreSettings:
        """Return the settings in force.

        Order: the argument (holds both), the environment variables ``RAG_ASSETS_STORE`` and
        ``RAG_ASSETS_STATE_DIR``, ``data/store`` below the working directory.
        """
        if store is not None:
            root = Path(store).absolute()
            return cls(root, root)
        root = Path(os.environ.get("RAG_ASSETS_STORE") or DEFAULT_STORE).absolute()
        return cls(root, Path(os.environ.get("RAG_ASSETS_STATE_DIR") or root).absolute())

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
    def registry(self) -> Path:
        """List of the experiments that were evaluated, by name."""
        return self.state_dir / "experiments.json"
