"""Tables in blocks by content: what is computed record by record is computed once a block.

A table that was put together from blocks names them in its manifest, in their order: the digest of
what each was computed from, how many rows it has, and the digest of these. The next table of the
same asset, made by the same code, takes the rows of every block that is named there out of the
stored table, and computes the others. What is computed from such a table goes by the digests of its
blocks, so it reads the rows of those that changed only. There is no other copy of a block and
nothing to sweep: a block lives as long as a table that holds it.

Where a block ends follows from one record alone: from its hash, with a chance that is in
proportion to its size, so that blocks have about :data:`TARGET` bytes whatever the size of their
records. An inserted, removed or edited record so changes the block in which it lies, and at most
splits it or joins it with the next one. A least size would let a boundary depend on the one before,
and an edit move all that follow; the few small blocks cost next to nothing. The most is kept by
cuts inside of such a block, which end with it.

For a stage that computes each record without looking at another one. What looks at its neighbours,
or at all, cannot be done by blocks, and says so where it is defined.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.artifacts import Artifact, ArtifactStore, Block, read_manifest, unreadable
from rag_assets.store.atomic import TEMPORARY_MARK
from rag_assets.store.canonical import bytes_of, table_digest, text_bytes
from rag_assets.store.file_stamps import modified
from rag_assets.store.large_tables import TableBuilder

TARGET = 1 << 19
"""Bytes of a block, on average."""

MOST = 1 << 22
"""A block is cut behind the record with which it has so many bytes."""

NEWEST = 32
"""How many tables of an asset are looked into; those of other configurations are among them."""

FILES = "files"
"""What of a configuration says which files are read: blocks of other files are taken over."""

_HASHES = 1 << 32
_DIGITS = 32
_KEPT_GROUPS = 2
"""A block may lie across two row groups."""


def is_end(record: bytes, n_bytes: int, together: int) -> bool:
    """Return whether a block ends behind a record, of which so many bytes are ``together``."""
    return crc32(record) * TARGET < n_bytes * _HASHES or together >= MOST


def block_ends(ids: Iterable[str], sizes: Iterable[int]) -> list[int]:
    """Return behind which row each block of a table ends, by the ids of rows and their bytes."""
    ends, together, row = [], 0, 0
    for row, (name, n_bytes) in enumerate(zip(ids, sizes, strict=True), start=1):
        together += n_bytes
        if is_end(name.encode(), n_bytes, together):
            ends.append(row)
            together = 0
    return ends if not row or (ends and ends[-1] == row) else [*ends, row]


def table_blocks(table: pa.Table, name: str, text: str) -> Iterator[pa.Table]:
    """Yield a table in blocks; ``name`` and ``text`` are the columns of an id and of a text."""
    sizes = pc.binary_length(table.column(text)).to_pylist()
    start = 0
    for end in block_ends(table.column(name).to_pylist(), sizes):
        yield table.slice(start, end - start)
        start = end


def records_digest(records: pa.Array, seed: str) -> str:
    """Return the digest of texts or bytes, and of what else their rows are computed from."""
    digest = hashlib.sha256(f"{seed}\0".encode())
    digest.update(bytes_of(pc.cast(pc.binary_length(records), pa.int64())))
    digest.update(text_bytes(records))
    return digest.hexdigest()[:_DIGITS]


def rows_digest(rows: pa.Table) -> str:
    """Return the digest of some rows in their order."""
    return table_digest(rows, ())[:_DIGITS]


def stored_blocks(
    artifact: Artifact, name: str, text: str
) -> Iterator[tuple[str, Callable[[], pa.Table]]]:
    """Yield the digest of the rows of each block of a stored table, and what reads them.

    Of a table that was put together from blocks it yields these, and nothing is read or hashed for
    it; another one is read, and taken apart as by :func:`table_blocks`.
    """

    def read(start: int, n_rows: int) -> pa.Table:
        try:
            return groups.rows(start, n_rows)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(artifact.path, error) from error

    blocks = artifact.manifest.blocks
    if not blocks or not all(block.content for block in blocks):
        for rows in table_blocks(artifact.table(), name, text):
            yield rows_digest(rows), partial(pa.concat_tables, [rows])
        return
    groups, start = _Groups(artifact.file), 0
    for block in blocks:
        yield block.content, partial(read, start, block.rows)
        start += block.rows


class KnownBlocks:
    """The blocks of stored tables, by digest; with no table it knows none."""

    def __init__(self, artifacts: Iterable[Artifact] = ()) -> None:
        """Know the blocks of some tables; where several have one, it is of the first of them."""
        self._places: dict[str, tuple[_Groups, int, Block]] = {}
        for artifact in artifacts:
            groups, start = _Groups(artifact.file), 0
            for block in artifact.manifest.blocks:
                self._places.setdefault(block.digest, (groups, start, block))
                start += block.rows

    def __contains__(self, digest: str) -> bool:
        """Return whether a table has the block."""
        return digest in self._places

    def rows(self, digest: str) -> pa.Table | None:
        """Return the rows of a block; None where no table has it, or it cannot be read."""
        if digest not in self._places:
            return None
        groups, start, block = self._places[digest]
        try:
            return groups.rows(start, block.rows)
        except (OSError, pa.ArrowException):  # removed or damaged meanwhile: computed again
            return None

    def content(self, digest: str) -> str:
        """Return the digest of the rows of a known block; empty where it is not noted."""
        return self._places[digest][2].content


class BlockedTable:
    """A table that is put together block by block.

    Attributes:
        blocks: those that it has so far.
        computed: how many of them were not known.
    """

    def __init__(self, known: KnownBlocks, folder: Path | None = None) -> None:
        """Start without rows; what a large one holds lies in ``folder``."""
        self._known = known
        self._rows = TableBuilder(folder)
        self.blocks: list[Block] = []
        self.computed = 0

    def add(
        self,
        blocks: Iterable[tuple[str, Callable[[], pa.Table]]],
        work: Callable[[pa.Table], pa.Table],
        compute: Compute = LOCAL,
    ) -> None:
        """Add the rows of blocks.

        Args:
            blocks: the digest of each, and what reads its records.
            work: what is made of the records of a block that is not known.
            compute: where that is done.
        """
        first, digests, missing = len(self.blocks), list[str](), list[int]()
        waiting: dict[int, tuple[pa.Table, str]] = {}  # for those before them

        def add_next() -> None:
            while (number := len(self.blocks) - first) in waiting:
                rows, content = waiting.pop(number)
                self._rows.add(rows)
                block = Block(digests[number], rows.num_rows, content or rows_digest(rows))
                self.blocks.append(block)

        def unknown() -> Iterator[tuple[pa.Table]]:
            for number, (digest, read) in enumerate(blocks):
                digests.append(digest)
                stored = self._known.rows(digest)
                if stored is None:
                    missing.append(number)
                    yield (read(),)
                else:
                    waiting[number] = (stored, self._known.content(digest))
                    add_next()

        for number, rows in compute.map(work, unknown()):
            waiting[missing[number]] = (rows, "")
            add_next()
        self.computed += len(missing)

    def table(self) -> pa.Table:
        """Return all rows; there is at least one block."""
        return self._rows.table()


class _Groups:
    """The rows of a Parquet file, read a row group at a time, each once when asked in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recent: dict[int, pa.Table] = {}

    def rows(self, start: int, n_rows: int) -> pa.Table:
        first = bisect_right(self._starts, start) - 1
        last = max(bisect_left(self._starts, start + n_rows), first + 1)
        parts = [self._group(number) for number in range(first, last)]
        return pa.concat_tables(parts).slice(start - self._starts[first], n_rows)

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path, page_checksum_verification=True)

    @cached_property
    def _starts(self) -> list[int]:
        about = self._file.metadata
        sizes = (about.row_group(number).num_rows for number in range(about.num_row_groups))
        return [0, *accumulate(sizes)][:-1]

    def _group(self, number: int) -> pa.Table:
        if number not in self._recent:
            while len(self._recent) >= _KEPT_GROUPS:
                del self._recent[next(iter(self._recent))]
            table = self._file.read_row_group(number)
            self._recent[number] = table.replace_schema_metadata(None)
        return self._recent[number]


def similar_artifacts(
    store: ArtifactStore,
    asset: str,
    code_version: str,
    config: Mapping[str, Any],
    versions: Mapping[str, str],
) -> Iterator[Artifact]:
    """Yield the newest artifacts of an asset that the same code made the same way.

    On S3, only artifacts that are already downloaded. Which files are read need not be the same.
    """

    def identity(config: Mapping[str, Any], *others: object) -> list[object]:
        return [{n: value for n, value in config.items() if n != FILES}, *others]

    wanted = identity(config, SCHEMA_VERSION, code_version, dict(versions))
    folder = store.objects / asset
    paths = [path for path in folder.glob("*") if TEMPORARY_MARK not in path.name]
    for path in sorted(paths, key=modified, reverse=True)[:NEWEST]:
        manifest = read_manifest(path)
        if manifest is not None and wanted == identity(
            manifest.config, manifest.schema_version, manifest.code_version, dict(manifest.versions)
        ):
            artifact = store.read(path)
            if artifact is not None:
                yield artifact
