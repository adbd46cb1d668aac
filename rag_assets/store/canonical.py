"""Hashes that mean something: of a configuration, and of a table whatever its row order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_BATCH = 65_536
"""Rows that are hashed at once. Part of the digest's definition: another number, other digests."""

_BYTES = 16_000_000
"""Bytes of text that are gathered at once; no part of the definition."""

Rows = npt.NDArray[Any] | range
"""Numbers of rows, from 0; those that lie together are a range, and nothing is moved for them."""


def canonical_json(value: object) -> str:
    """Return the one JSON text of ``value``: sorted keys, no blanks, NaN refused."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def fingerprint(value: object) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


CHECKSUM = "sha256"


def permanent_hash(*parts: object) -> bytes:
    """Return bytes as a permanent random number: they depend on nothing but the parts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def seeded(seed: int, name: str) -> np.random.Generator:
    """Return random numbers that depend on a seed and one name alone, whatever else is drawn."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def sealed_json(fields: Mapping[str, object]) -> str:
    """Return a record as JSON with the SHA-256 of its other fields."""
    text = json.dumps(fields)
    stored = {**json.loads(text), CHECKSUM: hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps(stored, ensure_ascii=False, indent=1)


def read_sealed(content: bytes) -> dict[str, Any]:
    """Return the fields of a record that :func:`sealed_json` wrote.

    Raises:
        ValueError: a byte of it is another, or it has no checksum.
    """
    try:
        fields = dict(json.loads(content))
        stated = fields.pop(CHECKSUM, None)
        intact = stated == hashlib.sha256(json.dumps(fields).encode()).hexdigest()
    except (ValueError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise ValueError("it is not what was written")
    return fields


def table_digest(table: pa.Table, key: Sequence[str], columns: Sequence[str] | None = None) -> str:
    """Return the SHA-256 of a table's content, independent of the order of its rows.

    Rows are put in the order of the key a batch at a time, so no second copy of the texts is made.

    Args:
        table: the table.
        key: columns that identify a row; rows are sorted by them first. Without any, the digest is
            of the rows in their order.
        columns: the projection to hash; all columns when absent.
    """
    return projection_digests(table, key, [columns or table.column_names])[0]


def projection_digests(
    table: pa.Table, key: Sequence[str], projections: Iterable[Sequence[str]]
) -> list[str]:
    """Return the :func:`table_digest` of each projection; rows are sorted once."""
    order = _order(table, key)
    return [_digest(table.select(columns), order) for columns in projections]


def _order(table: pa.Table, key: Sequence[str]) -> Rows:
    in_order = range(table.num_rows)
    if not key:
        return in_order
    sort_keys = [(name, "ascending") for name in key]
    order = pc.sort_indices(table, sort_keys=sort_keys).to_numpy().astype(np.int64)
    return in_order if np.array_equal(order, np.arange(len(order))) else order


def _digest(table: pa.Table, order: Rows) -> str:
    digest = hashlib.sha256(str(table.num_rows).encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(f"\0{name}:{column.type}\0".encode())
        update = _update_texts if pa.types.is_string(column.type) else _update_column
        for start in range(0, len(order), _BATCH):
            update(digest, column, order[start : start + _BATCH])
    return digest.hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    """Return name -> SHA-256 of all files below ``folder``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _update_column(digest: hashlib._Hash, column: pa.ChunkedArray, rows: Rows) -> None:
    _update(digest, take_rows(column, rows))


def _update_texts(digest: hashlib._Hash, column: pa.ChunkedArray, rows: Rows) -> None:
    """Hash as :func:`_update` does, but never more than a few million characters at once."""
    if isinstance(rows, range):
        column, rows = column.slice(rows.start, len(rows)), range(len(rows))
    facts = pa.table({"null": pc.is_null(column), "length": pc.binary_length(column)})
    digest.update(np.packbits(_numbers(take_rows(facts.column("null"), rows))).tobytes())
    lengths = _numbers(pc.fill_null(take_rows(facts.column("length"), rows), 0))
    digest.update(np.ascontiguousarray(lengths).tobytes())
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(rows):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _BYTES, side="right")))
        digest.update(text_bytes(take_rows(column, rows[start:stop])))
        start = stop


def take_rows(column: pa.ChunkedArray, rows: Rows) -> pa.Array:
    """Return the given rows of a column, in the order given.

    ``ChunkedArray.take`` first makes one array of all texts, a copy of the whole column.
    """
    if isinstance(rows, range):
        part = column.slice(rows.start, len(rows))
        return part.chunk(0) if part.num_chunks == 1 else part.combine_chunks()
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    ends = np.cumsum([len(chunk) for chunk in chunks])
    inside = np.searchsorted(ends, rows, side="right")
    by_chunk = np.argsort(inside, kind="stable")
    edges = np.searchsorted(inside[by_chunk], np.arange(len(chunks) + 1))
    parts = [
        chunk.take(pa.array(rows[by_chunk[first:end]] - (ends[number] - len(chunk))))
        for number, chunk in enumerate(chunks)
        if (first := edges[number]) < (end := edges[number + 1])
    ]
    if not parts:
        return pa.array([], column.type)
    back = np.empty(len(rows), dtype=np.int64)
    back[by_chunk] = np.arange(len(rows))
    return (parts[0] if len(parts) == 1 else pa.concat_arrays(parts)).take(pa.array(back))


def rows_at(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return the given rows of a table, in the order given; those that lie together are a slice."""
    first = int(rows[0]) if len(rows) else 0
    if np.array_equal(rows, np.arange(first, first + len(rows))):
        return table.slice(first, len(rows))
    return pa.table([take_rows(column, rows) for column in table.columns], schema=table.schema)


def _update(digest: hashlib._Hash, values: pa.Array) -> None:
    if len(values) == 0:
        return
    digest.update(np.packbits(_numbers(values.is_null())).tobytes())
    if pa.types.is_list(values.type):
        digest.update(bytes_of(pc.fill_null(pc.list_value_length(values), -1)))
        _update(digest, values.flatten())
    elif pa.types.is_struct(values.type):
        for field in values.flatten():
            _update(digest, field)
    elif pa.types.is_string(values.type):
        digest.update(bytes_of(pc.binary_length(pc.fill_null(values, ""))))
        digest.update(text_bytes(values))
    else:
        zero = False if pa.types.is_boolean(values.type) else 0
        digest.update(bytes_of(pc.fill_null(values, zero)))


def text_bytes(values: pa.Array) -> pa.Buffer | bytes:
    """Return the UTF-8 of all texts, or the bytes, one after the other; nothing for a null."""
    if not len(values):
        return b""
    filled = pc.fill_null(values, "")
    _, offsets, data = filled.buffers()
    if data is None:
        return b""
    edges = np.frombuffer(offsets, dtype=np.int32)[[filled.offset, filled.offset + len(filled)]]
    return data.slice(int(edges[0]), int(edges[1] - edges[0]))


def bytes_of(numbers: pa.Array) -> bytes:
    """Return the values of an array of numbers, one after the other."""
    return np.ascontiguousarray(_numbers(numbers)).tobytes()


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers
