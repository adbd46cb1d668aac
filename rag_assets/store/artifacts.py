"""Immutable artifacts: a Parquet file or a folder, named by the fingerprint of what made it.

An artifact is an object: it lies at ``objects/<asset>/<fingerprint>`` of the store, whatever
partition of whatever experiment wants it, so equal work is done once. It holds its manifest: in a
Parquet file as key-value metadata, in a folder as ``manifest.json``. Nothing is ever changed in
place, so going back to an old configuration costs nothing.

What was written can be told from what is there: a Parquet file is sealed with a checksum of all its
bytes, and a folder's digest is of its files. An artifact that is damaged counts as absent.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.atomic import TEMPORARY_MARK, atomic_directory, atomic_file
from rag_assets.store.canonical import canonical_json, fingerprint, folder_digest
from rag_assets.store.locks import locked
from rag_assets.store.recent_files import RecentFiles
from rag_assets.store.remote.opened import folder_manifest
from rag_assets.store.remote.working_copy import MANIFEST as MANIFEST_FILE
from rag_assets.store.seals import MARK, UNSEALED, is_sealed, seal
from rag_assets.store.verified import Verified

MANIFEST_KEY = b"rag_assets"
CHECKSUM = "sha256"
"""In a stored manifest: the fingerprint of its fields."""

OBJECTS = "objects"
"""The folder of all artifacts of a store, and of their locks; no experiment has its name."""

DEPTH_MARK = "-"
"""Between the fingerprint of a ranking's recipe and its depth, in the ranking's own."""

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
    maps the id of a query that could not be answered to the reason. Without a ``code_version`` it
    was made before code versions were found in the source. ``blocks`` are digest and rows of those
    that a table was put together from, see :mod:`rag_assets.store.blocks`.
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
    code_version: str = ""
    blocks: Sequence[tuple[str, int]] = ()

    def to_json(self) -> str:
        """Return the manifest as canonical JSON, with a checksum of its fields."""
        fields = asdict(self)
        return canonical_json({**fields, CHECKSUM: fingerprint(fields)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Read a manifest back.

        Raises:
            ValueError: it is not JSON, or not what its checksum is of.
            TypeError: a field is unknown or missing.
        """
        fields = dict(json.loads(text))
        stated = fields.pop(CHECKSUM, None)
        if stated not in (None, fingerprint(fields)):
            raise ValueError("the manifest is damaged")
        fields["blocks"] = tuple((digest, rows) for digest, rows in fields.pop("blocks", ()))
        return cls(**fields)


_TABLES: RecentFiles[pa.Table] = RecentFiles(lambda table: table.nbytes, 1 << 20, 1 << 25)
"""Of at most 1 MiB each, 32 MiB in all."""

_INTACT: RecentFiles[bool] = RecentFiles(lambda _: 1, 1, 4096)
"""Whether files are as they were sealed, of the last 4,096 that readers asked for."""

_MANIFESTS: RecentFiles[Manifest] = RecentFiles(lambda _: 1, 1, 4096)
"""The last 4,096."""


@dataclass(frozen=True)
class Artifact:
    """A stored artifact: its path and its manifest."""

    path: Path
    manifest: Manifest

    @property
    def folder(self) -> Path:
        """The path of a folder, which has all its files when this returns."""
        return self.path

    def table(self) -> pa.Table:
        """Return the table of a Parquet artifact.

        Raises:
            StoreError: the file is gone, or a part of it is damaged.
        """
        try:
            return _TABLES.get(self.path, _read_table)
        except (OSError, pa.ArrowException) as error:
            what = " ".join(str(error).split())
            raise StoreError(f"cannot read {self.path}, delete it: {what}") from error

    def is_intact(self) -> bool:
        """Return whether it holds what was written; a table of an older version is believed."""
        try:
            if self.path.is_dir():
                return folder_digest(self.path, MANIFEST_FILE) == self.manifest.digests["all"]
            sealed = is_sealed(self.path)
            return not _has_checksum(self.path) if sealed is None else sealed
        except (OSError, pa.ArrowException):
            return False

    @property
    def size(self) -> int:
        """Bytes on disk: of the file, or of all files of the folder."""
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files if file.is_file())


class ArtifactStore:
    """All artifacts of a store, whichever experiments want them."""

    def __init__(self, root: Path, locks: Path) -> None:
        """Use the store's folder ``root``; nothing is created before something is written."""
        self.root = root
        self.objects = root / OBJECTS
        self._locks = locks / OBJECTS
        self.verified = Verified(self.root, self._locks / "verified.json")

    def path(self, asset: str, fingerprint: str, *, directory: bool = False) -> Path:
        """Return where the artifact of this fingerprint lies, or would lie."""
        name = short(fingerprint)
        return self.objects / asset / (name if directory else f"{name}.parquet")

    def find(self, asset: str, fingerprint: str) -> Artifact | None:
        """Return the artifact, or None when it is absent or damaged."""
        for directory in (False, True):
            artifact = self.read(self.path(asset, fingerprint, directory=directory))
            if artifact is not None and artifact.manifest.fingerprint == fingerprint:
                return artifact
        return None

    def read(self, path: Path) -> Artifact | None:
        """Return the artifact at a path below the root, or None when it is absent or damaged."""
        manifest = read_manifest(path)
        if manifest is None:
            return None
        artifact = Artifact(path, manifest)
        if not self.verified.holds(path):
            if not artifact.is_intact():
                self.verified.refuse(path)
                return None
            self.verified.add(path)
        return artifact

    def names(self, asset: str) -> set[str]:
        """Return the names of all artifacts of an asset."""
        folder = self.objects / asset
        found = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - asked often
        return {name for name in found if TEMPORARY_MARK not in name}

    def depths(self, asset: str, fingerprint: str) -> set[int]:
        """Return the depths at which the rankings of a recipe are stored."""
        first = f"{short(fingerprint)}{DEPTH_MARK}"
        found = (name for name in self.names(asset) if name.startswith(first))
        return {int(name[len(first) :].removesuffix(".parquet")) for name in found}

    def write_table(self, table: pa.Table, manifest: Manifest) -> Artifact:
        """Write a table with its manifest inside."""
        path = self.path(manifest.asset, manifest.fingerprint)
        content = table.replace_schema_metadata({MANIFEST_KEY: manifest.to_json().encode()})
        with atomic_file(path) as temporary:
            with pq.ParquetWriter(
                temporary,
                content.schema,
                compression="zstd",
                write_statistics=False,
                write_page_checksum=True,
            ) as writer:
                writer.write_table(content, row_group_size=_rows_at_once(content))
                writer.add_key_value_metadata({MARK: UNSEALED})
            seal(temporary)
        self.verified.add(path)
        return Artifact(path, manifest)

    @contextmanager
    def write_directory(self, asset: str, fingerprint: str) -> Iterator[Path]:
        """Yield an empty folder to fill; the caller writes its manifest with ``save_manifest``."""
        path = self.path(asset, fingerprint, directory=True)
        if path.is_dir() and self.read(path) is None:
            shutil.rmtree(path, ignore_errors=True)  # damaged: the new folder takes its place
        with atomic_directory(path) as temporary:
            yield temporary
        self.verified.add(path)

    def sending(self) -> AbstractContextManager[None]:
        """Send what the block writes, where the store is a remote one."""
        return nullcontext()

    @contextmanager
    def lock(self, asset: str, fingerprints: Iterable[str]) -> Iterator[None]:
        """Hold the locks of some fingerprints, so that no two processes compute the same thing.

        Taken in sorted order, so that two who want several of the same never wait for each other.
        """
        with ExitStack() as held:
            for name in sorted({short(fingerprint) for fingerprint in fingerprints}):
                held.enter_context(locked(self._locks / asset / f"{name}.lock"))
            yield


def short(fingerprint: str) -> str:
    """Return the name of what has a fingerprint; a ranking's ends with its depth."""
    digest, mark, depth = fingerprint.partition(DEPTH_MARK)
    return digest[:16] + mark + depth


def _read_table(path: Path) -> pa.Table:
    # Not `pq.read_table`, which takes twice as long for a small file.
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read().replace_schema_metadata(None)


def _rows_at_once(table: pa.Table) -> int:
    """Return how many rows make a row group: the writer keeps a whole one in memory."""
    n_rows: int = table.num_rows * GROUP_BYTES // max(table.nbytes, 1)
    return max(1, min(MOST_ROWS, n_rows))


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder artifact, as its last file."""
    (folder / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")


def _has_checksum(path: Path) -> bool:
    """Return whether the manifest of a Parquet file has one; what seals, also writes it."""
    return f'"{CHECKSUM}":'.encode() in pq.read_schema(path).metadata[MANIFEST_KEY]


def read_intact(path: Path) -> Artifact | None:
    """Return the table at a path; None when it is absent or not what was written.

    The file is hashed, whatever its stamp: once a process, as long as it stays as it is.
    """
    manifest = read_manifest(path)
    artifact = Artifact(path, manifest) if manifest is not None else None
    try:
        if artifact is not None and _INTACT.get(path, lambda _: artifact.is_intact()):
            return artifact
    except OSError:
        pass
    return None


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest of a Parquet file or folder; None when there is no readable one."""
    try:
        if path.suffix == ".parquet":
            return _MANIFESTS.get(path, _read_manifest)
        return Manifest.from_json(folder_manifest(path))
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
        return None


def _read_manifest(path: Path) -> Manifest:
    return Manifest.from_json(pq.read_schema(path).metadata[MANIFEST_KEY])
