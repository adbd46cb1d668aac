"""Immutable artifacts: a Parquet file or a folder, named by the fingerprint of what made it.

An artifact lies at ``<store>/<experiment>/<asset>/<dimension>=<value>/.../<fingerprint16>`` and
holds its manifest: in a Parquet file as key-value metadata, in a folder as ``manifest.json``.
Nothing is ever changed in place, so going back to an old configuration costs nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.atomic import atomic_directory, atomic_file
from rag_assets.store.canonical import canonical_json
from rag_assets.store.locks import locked

MANIFEST_KEY = b"rag_assets"
MANIFEST_FILE = "manifest.json"

GROUP_BYTES = 32_000_000
"""Bytes of a table that are written to one row group of a Parquet file."""

MOST_ROWS = 1_048_576
"""Rows of one row group, at most."""


@dataclass(frozen=True, order=True)
class ArtifactKey:
    """An asset and one of its partitions, as ordered (dimension, value) pairs."""

    asset: str
    partition: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, asset: str, **partition: str | int) -> ArtifactKey:
        """Return the key of ``asset`` at the given dimension values."""
        return cls(asset, tuple((name, str(value)) for name, value in partition.items()))

    def __getitem__(self, dimension: str) -> str:
        """Return the value of one dimension."""
        return dict(self.partition)[dimension]

    def __str__(self) -> str:
        """Return ``asset[retriever=bm25, top_k=10]``."""
        inside = ", ".join(f"{name}={value}" for name, value in self.partition)
        return f"{self.asset}[{inside}]" if inside else self.asset


@dataclass(frozen=True)
class Manifest:
    """What an artifact is: all that determined it, and the digests of what it contains.

    ``digests`` maps a projection (``all`` always exists) to the digest of that part. ``failures``
    maps the id of a query that could not be answered to the reason.
    """

    asset: str
    fingerprint: str
    digests: Mapping[str, str]
    config: Mapping[str, Any]
    inputs: Mapping[str, str]
    versions: Mapping[str, str]
    rows: int
    schema_version: int = SCHEMA_VERSION
    facts: Mapping[str, Any] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the manifest as canonical JSON."""
        return canonical_json(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Read a manifest back; unknown fields are an error."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Artifact:
    """A stored artifact: its path and its manifest."""

    path: Path
    manifest: Manifest

    def table(self) -> pa.Table:
        """Return the table of a Parquet artifact."""
        return pq.read_table(self.path, partitioning=None).replace_schema_metadata(None)

    @property
    def size(self) -> int:
        """Bytes on disk: of the file, or of all files of the folder."""
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files if file.is_file())


class ArtifactStore:
    """All artifacts of one experiment."""

    def __init__(self, root: Path, experiment: str, locks: Path) -> None:
        """Use the folder ``root/experiment``; nothing is created before something is written."""
        self.root = root / experiment
        self._locks = locks / experiment

    def path(self, key: ArtifactKey, fingerprint: str, *, directory: bool = False) -> Path:
        """Return where the artifact of this key and fingerprint lies, or would lie."""
        folders = [f"{name}={value}" for name, value in key.partition]
        name = fingerprint[:16] if directory else f"{fingerprint[:16]}.parquet"
        return self.root.joinpath(key.asset, *folders, name)

    def find(self, key: ArtifactKey, fingerprint: str) -> Artifact | None:
        """Return the artifact, or None when it is absent or cannot be read."""
        for directory in (False, True):
            path = self.path(key, fingerprint, directory=directory)
            manifest = read_manifest(path)
            if manifest is not None and manifest.fingerprint == fingerprint:
                return Artifact(path, manifest)
        return None

    def write_table(self, key: ArtifactKey, table: pa.Table, manifest: Manifest) -> Artifact:
        """Write a table with its manifest inside."""
        path = self.path(key, manifest.fingerprint)
        content = table.replace_schema_metadata({MANIFEST_KEY: manifest.to_json().encode()})
        with atomic_file(path) as temporary:
            pq.write_table(
                content,
                temporary,
                compression="zstd",
                write_statistics=False,
                row_group_size=_rows_at_once(content),
            )
        return Artifact(path, manifest)

    @contextmanager
    def write_directory(self, key: ArtifactKey, fingerprint: str) -> Iterator[Path]:
        """Yield an empty folder to fill; the caller writes its manifest with ``save_manifest``."""
        path = self.path(key, fingerprint, directory=True)
        if path.is_dir() and read_manifest(path) is None:
            shutil.rmtree(path, ignore_errors=True)  # damaged: the new folder takes its place
        with atomic_directory(path) as temporary:
            yield temporary

    @contextmanager
    def lock(self, key: ArtifactKey) -> Iterator[None]:
        """Hold the lock of one key, so that two processes never compute the same thing twice."""
        name = "__".join([key.asset, *(value for _, value in key.partition)])
        with locked(self._locks / f"{name}.lock"):
            yield


def _rows_at_once(table: pa.Table) -> int:
    """Return how many rows make a row group: the writer keeps a whole one in memory."""
    n_rows: int = table.num_rows * GROUP_BYTES // max(table.nbytes, 1)
    return max(1, min(MOST_ROWS, n_rows))


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder artifact, as its last file."""
    (folder / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest of a Parquet file or folder; None when there is no readable one."""
    try:
        if path.suffix == ".parquet":
            text = pq.read_schema(path).metadata[MANIFEST_KEY]
        else:
            text = (path / MANIFEST_FILE).read_bytes()
        return Manifest.from_json(text)
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
        return None
