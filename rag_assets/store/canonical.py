"""Hashes that mean something: of a configuration, and of a table whatever its row order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BATCH = 65_536
"""Rows that are hashed at once. Part of the digest's definition: another number, other digests."""


def canonical_json(value: object) -> str:
    """Return the one JSON text of ``value``: sorted keys, no blanks, NaN refused."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def fingerprint(value: object) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def table_digest(table: pa.Table, key: Sequence[str], columns: Sequence[str] | None = None) -> str:
    """Return the SHA-256 of a table's content, independent of the order of its rows.

    Rows are put in the order of the key a batch at a time, so no second copy of the texts is made.

    Args:
        table: the table.
        key: columns that identify a row; rows are sorted by them first.
        columns: the projection to hash; all columns when absent.
    """
    names = list(columns) if columns is not None else table.column_names
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in key])
    digest = hashlib.sha256(str(table.num_rows).encode())
    for name in names:
        column = table.column(name)
        digest.update(f"\0{name}:{column.type}\0".encode())
        for start in range(0, len(order), _BATCH):
            _update(digest, _one_array(column.take(order.slice(start, _BATCH))))
    return digest.hexdigest()


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files below ``folder``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return fingerprint(
        {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }
    )


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _update(digest: hashlib._Hash, values: pa.Array) -> None:
    if len(values) == 0:
        return
    digest.update(np.packbits(values.is_null().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_list(values.type):
        digest.update(_bytes_of(pc.fill_null(pc.list_value_length(values), -1)))
        _update(digest, values.flatten())
    elif pa.types.is_string(values.type):
        filled = pc.fill_null(values, "")
        digest.update(_bytes_of(pc.binary_length(filled)))
        digest.update("".join(filled.to_pylist()).encode())
    else:
        zero = False if pa.types.is_boolean(values.type) else 0
        digest.update(_bytes_of(pc.fill_null(values, zero)))


def _bytes_of(numbers: pa.Array) -> bytes:
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False)).tobytes()
