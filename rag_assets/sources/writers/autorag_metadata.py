"""Metadata of documents as the struct column that AutoRAG has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rag_assets.sources.writers.tables import counted
from rag_assets.store.canonical import canonical_json

_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}
_LARGEST = 2**63


def metadata_column(rows: list[dict[str, Any]]) -> tuple[pa.Array | None, list[str]]:
    """Return a struct with every field of any document, and notes on what it changes.

    A field whose values are all texts, all integers, all other numbers or all booleans is of that
    type; any other is JSON text. A field that a document does not have is null, as one that is
    null there. There is no column when no document has a field.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        return None, []
    kinds = {name: _kind([r[name] for r in rows if r.get(name) is not None]) for name in names}
    nulls = sum(value is None for row in rows for value in row.values())
    encoded = [name for name, kind in kinds.items() if kind is None]
    columns = [
        pa.array([_value(row.get(name), kind) for row in rows], kind or pa.string())
        for name, kind in kinds.items()
    ]
    notes = counted(
        len(encoded),
        f"metadata field is written as JSON text: {', '.join(encoded[:5])}",
        f"metadata fields are written as JSON text: {', '.join(encoded[:5])}",
    )
    notes += counted(
        nulls,
        "metadata value that is null is not kept",
        "metadata values that are null are not kept",
    )
    return pa.StructArray.from_arrays(columns, names=list(names)), notes


def _kind(values: list[Any]) -> pa.DataType | None:
    kinds = {type(value) for value in values}
    if len(kinds) > 1:
        return None
    kind = kinds.pop() if kinds else str
    if kind is int and not all(-_LARGEST <= value < _LARGEST for value in values):
        return None
    return _TYPES.get(kind)


def _value(value: Any, kind: pa.DataType | None) -> Any:  # noqa: ANN401 (any JSON value)
    return canonical_json(value) if kind is None and value is not None else value
