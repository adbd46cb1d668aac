"""Immutable artifacts: a table or an index, named by the fingerprint of what made it.

An artifact is an object: a folder ``objects/<asset>/<fingerprint>`` of the store, whatever
partition of whatever experiment wants it, so equal work is done once. It holds ``table.parquet``,
or the files of an index, and ``manifest.json`` with the SHA-256 of each of them. The folder gets
its name when it is whole, and whoever comes second takes what is there: nothing is ever changed in
place or written over, so going back to an old configuration costs nothing.

What was written can be told from what is there, and what is damaged counts as absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.atomic import MANIFEST as MANIFEST_FILE
from rag_assets.store.atomic import TABLE, TEMPORARY_MARK, atomic_directory, manifest_file, remove
from rag_assets.store.canonical import canonical_json, file_digest, file_digests, fingerprint
from rag_assets.store.file_stamps import VerifiedFiles, remembered
from rag_assets.store.large_tables import IN_MEMORY_BYTES, read_groups
from rag_assets.store.locks import locked

if TYPE_CHECKING:
    from rag_assets.store.remote import LocalCopy

CHECKSUM = "sha256"
"""In a stored manifest: the fingerprint of its fields."""

OBJECTS = "objects"
"""The folder of all artifacts of a store, and of their locks; no experiment has its name."""

WITHOUT_CARRY_OVER = "used"
"""Projection of a folder without the file that only the next computation of its kind reads."""

DEPTH_MARK = "-"
"""Between the fingerprint of a ranking's recipe and its depth, in the ranking's own."""

GROUP_BYTES = 32_000_000
"""Bytes of a table that are written to one row group of a Parquet file."""

MAX_ROWS = 1_048_576
"""Rows of one row group, at most."""


@dataclass(frozen=True, order=True)
class ArtifactKey:
    """An asset and one of its partitions, as ordered (dimension, value) pairs."""

    asset: str
    partition: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, asset: str, **partition: str | int) -> ArtifactKey:
        """Return the key of ``asset`` at the given dimension values."""
        return cls(asset, tuple(zip(partition, map(str, partition.values()), strict=True)))

    def __getitem__(self, dimension: str) -> str:
        """Return the value of one dimension."""
        return dict(self.partition)[dimension]

    def __str__(self) -> str:
        """Return ``asset[retriever=bm25, top_k=10]``."""
        inside = ", ".join(f"{name}={value}" for name, value in self.partition)
        return f"{self.asset}[{inside}]" if inside else self.asset


class Block(NamedTuple):
    """A part of a table that was put together from such parts.

    Attributes:
        digest: of all that its rows are computed from.
        rows: how many it has.
        content: the digest of its rows; empty in a store of an older version.
    """

    digest: str
    rows: int
    content: str = ""


@dataclass(frozen=True)
class Manifest:
    """What an artifact is: all that determined it, and the digests of what it contains.

    ``digests`` maps a projection (``all`` always exists) to the digest of that part. ``failures``
    maps the id of a query that could not be answered to the reason. ``files`` maps the name of each
    file to its SHA-256. ``blocks`` are those that a table was put together from, see
    :mod:`rag_assets.store.blocks`.
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
    files: Mapping[str, str] = field(default_factory=dict)
    blocks: Sequence[Block] = ()

    def with_files(self, files: Mapping[str, str], carry_over: str) -> Manifest:
        """Return the manifest of these files; their digest is that of all, where none is stated."""
        digests = {"all": fingerprint(files), **self.digests}
        if carry_over:
            used = {name: digest for name, digest in files.items() if name != carry_over}
            digests[WITHOUT_CARRY_OVER] = fingerprint(used)
        return replace(self, files=files, digests=digests)

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
        fields["blocks"] = tuple(Block(*block) for block in fields.pop("blocks", ()))
        return cls(**fields)


SMALL_TABLE = 1 << 18
"""Bytes of the largest file of a table that stays in memory when it was read."""


@dataclass(frozen=True)
class Artifact:
    """A stored artifact: its path and its manifest."""

    path: Path
    manifest: Manifest
    fetch: Callable[[Path], bool] | None = None

    @property
    def folder(self) -> Path:
        """The path of a folder, which has all its files when this returns.

        Raises:
            StoreError: it is on S3 and cannot be fetched, or is damaged there.
        """
        is_here = self.fetch is None or (self.path / MANIFEST_FILE).is_file()
        if not is_here and not (self.fetch and self.fetch(self.path) and self.is_intact()):
            remove(self.path)
            raise StoreError(f"{self.path} is gone from the remote store, or damaged there")
        return self.path

    @property
    def file(self) -> Path:
        """The Parquet file of a table."""
        return self.path / TABLE

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the table of an artifact that is one, or some columns of it."""
        try:
            n_bytes = self.file.stat().st_size
            if n_bytes <= SMALL_TABLE:
                table = _small_table(self.file)
                return table.select(columns or table.column_names)
            if columns is None and n_bytes >= IN_MEMORY_BYTES:
                return _large_table(self.file)
            return _read_table(self.file, columns)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self.path, error) from error

    def rows(self, column: str, values: pa.Array) -> pa.Table:
        """Return the rows of a table whose column has one of some values; no other one is kept."""
        try:
            with pq.ParquetFile(self.file, page_checksum_verification=True) as file:
                groups = map(file.read_row_group, range(file.num_row_groups))
                chosen = [each.filter(pc.is_in(each[column], value_set=values)) for each in groups]
                empty = file.schema_arrow.empty_table()
                return pa.concat_tables([empty, *chosen]).replace_schema_metadata(None)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self.path, error) from error

    def is_intact(self) -> bool:
        """Return whether it holds what was written."""
        stated = self.manifest.files
        try:
            return all(file_digest(self.path / name) == stated[name] for name in stated)
        except OSError:
            return False

    @property
    def size(self) -> int:
        """Bytes on disk of all its files."""
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())


class ArtifactStore:
    """All artifacts of a store, whichever experiments want them."""

    def __init__(self, root: Path, locks: Path, remote: LocalCopy | None = None) -> None:
        """Use the store's folder ``root``; nothing is created before something is written.

        Where it is the copy of a remote store, a table is fetched when it is looked for, and a
        folder, such as an index, when it is used: its manifest is enough to know that it is there.
        """
        self.root = root
        self.remote = remote
        self.objects = root / OBJECTS
        self._locks = locks / OBJECTS
        self.verified = VerifiedFiles(self.root, self._locks / "verified.json")

    def path(self, asset: str, fingerprint: str) -> Path:
        """Return where the artifact of this fingerprint lies, or would lie."""
        return self.objects / asset / short(fingerprint)

    def find(self, asset: str, fingerprint: str) -> Artifact | None:
        """Return the artifact, or None when it is absent or damaged."""
        artifact = self.read(self.path(asset, fingerprint))
        is_it = artifact is not None and artifact.manifest.fingerprint == fingerprint
        return artifact if is_it else None

    def read(self, path: Path) -> Artifact | None:
        """Return the artifact at a path below the root, or None when it is absent or damaged."""
        artifact = self._read_here(path)
        remote = self.remote
        if artifact is not None or remote is None or not remote.has(path):
            return artifact
        remove(path)  # one that is damaged
        manifest = read_manifest(path)
        if manifest is None or TABLE in manifest.files:
            remote.fetch_artifact(path, whole=False)
            manifest = read_manifest(path)
        if manifest is not None and TABLE not in manifest.files:
            return Artifact(path, manifest, remote.fetch_artifact)
        artifact = self._read_here(path)
        if artifact is None:
            remote.damaged.add(path)
        return artifact

    def _read_here(self, path: Path) -> Artifact | None:
        manifest = read_manifest(path) if (path / MANIFEST_FILE).is_file() else None
        if manifest is None:
            return None
        artifact = Artifact(path, manifest)
        if not self.verified.holds(path, manifest.files):
            if not artifact.is_intact():
                self.verified.refuse(path)
                return None
            self.verified.add(path, manifest.files)
        return artifact

    def names(self, asset: str) -> set[str]:
        """Return the names of all artifacts of an asset."""
        folder = self.objects / asset
        entries = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - asked often
        there = self.remote.names(folder) if self.remote is not None else set()
        return {name for name in entries if TEMPORARY_MARK not in name} | there

    def depths(self, asset: str, fingerprint: str) -> set[int]:
        """Return the depths at which the rankings of a recipe are stored."""
        first = f"{short(fingerprint)}{DEPTH_MARK}"
        names = (name for name in self.names(asset) if name.startswith(first))
        return {int(name[len(first) :]) for name in names}

    def write_table(self, table: pa.Table, manifest: Manifest) -> Artifact:
        """Write a table; see :meth:`write`."""

        def fill(folder: Path) -> Manifest:
            save_table(table, folder)
            return manifest

        return self.write(manifest.asset, manifest.fingerprint, fill)

    def write(
        self,
        asset: str,
        fingerprint: str,
        fill: Callable[[Path], Manifest],
        carry_over_file: str = "",
    ) -> Artifact:
        """Keep what ``fill`` writes; of two who write at once, both get what the first one kept.

        Models and servers give other bytes for the same inputs, so that may be another content.
        ``fill`` writes files into an empty folder and returns their manifest; one without a digest
        ``all`` gets that of the files, and of all but the one that is named, if one is.
        """
        path = self.path(asset, fingerprint)
        if path.exists() and self.find(asset, fingerprint) is None:
            remove(path)  # damaged: the new folder takes its place
        with atomic_directory(path) as temporary:
            manifest = fill(temporary).with_files(file_digests(temporary), carry_over_file)
            (temporary / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
        stored = read_manifest(path)
        if self.remote is not None:
            self.remote.written.add(path)
        if stored is not None and stored.files == manifest.files:
            self.verified.add(path, manifest.files)
            return Artifact(path, manifest)
        first = self.find(asset, fingerprint)
        if first is None:
            raise StoreError(f"{path} was damaged or removed while it was written; evaluate again")
        return first

    @contextmanager
    def lock(self, asset: str, fingerprints: Iterable[str]) -> Iterator[None]:
        """Hold the locks of some fingerprints, so that no two processes compute the same thing.

        Taken in sorted order, so that two who want several of the same never wait for each other.
        """
        with ExitStack() as held:
            for name in sorted({short(fingerprint) for fingerprint in fingerprints}):
                held.enter_context(locked(self._locks / asset / f"{name}.lock"))
            yield


def save_table(table: pa.Table, folder: Path) -> None:
    """Write a table into the folder of an artifact."""
    content = table.replace_schema_metadata(None)
    n_rows = content.num_rows * GROUP_BYTES // max(content.nbytes, 1)  # held in memory at once
    pq.write_table(
        content,
        folder / TABLE,
        row_group_size=max(1, min(MAX_ROWS, n_rows)),
        compression="zstd",
        write_statistics=False,
        write_page_checksum=True,
    )


def unreadable(path: Path, error: Exception) -> StoreError:
    """Return what is raised where an artifact that was there cannot be read."""
    what = " ".join(str(error).split())
    return StoreError(f"cannot read {path}, delete it: {what}")


def short(fingerprint: str) -> str:
    """Return the name of what has a fingerprint; a ranking's ends with its depth."""
    digest, mark, depth = fingerprint.partition(DEPTH_MARK)
    return digest[:16] + mark + depth


def _read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    # Not `pq.read_table`, which takes twice as long for a small file.
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return read_groups(file, path.parent.parent, columns).replace_schema_metadata(None)


@remembered(256)
def _small_table(path: Path) -> pa.Table:
    return _read_table(path)


@remembered(2)
def _large_table(path: Path) -> pa.Table:
    """Return a table that takes no memory: the corpus and its chunks are read by several stages."""
    return _read_table(path)


def read_intact(path: Path) -> Artifact | None:
    """Return the table at a path; None when it is absent or not what was written.

    The file is hashed, whatever its stamp: once a process, as long as it stays as it is.
    """
    manifest = read_manifest(path)
    try:
        is_intact = _is_intact(path / TABLE)
    except OSError:
        return None
    return Artifact(path, manifest) if manifest is not None and is_intact else None


@remembered(4096)
def _is_intact(file: Path) -> bool:
    manifest = read_manifest(file.parent)
    return manifest is not None and Artifact(file.parent, manifest).is_intact()


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest of an artifact; None when there is no readable one."""
    try:
        file = path / MANIFEST_FILE
        if not file.is_file():  # a folder of a remote store that is not fetched yet
            file = manifest_file(path)
        return _read_manifest(file)
    except (OSError, TypeError, ValueError):
        return None


@remembered(4096)
def _read_manifest(file: Path) -> Manifest:
    return Manifest.from_json(file.read_bytes())
