"""Several runs, labels and cut-offs as one table each, and the table of results cut up again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

Cell = tuple[str, int]
"""A run and a cut-off."""


def stacked(label: str, tables: Mapping[str, pa.Table], columns: list[str]) -> pa.Table:
    """Return the chosen columns of all tables under each other, named in the column ``label``."""
    parts = []
    for name, table in tables.items():
        names = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), [name])
        parts.append(table.select(columns).append_column(label, names.cast(pa.string())))
    return pa.concat_tables(parts)


def pairs(first: str, second: str, rows: Iterable[tuple[str, str | int]]) -> pa.Table:
    """Return pairs as a table of two columns."""
    listed = list(rows)
    return pa.table({first: [a for a, _ in listed], second: [b for _, b in listed]})


def by_cell(table: pa.Table, cells: Iterable[Cell], schema: pa.Schema) -> dict[Cell, pa.Table]:
    """Return each cell's rows of a table with the columns ``run`` and ``top_k``, without those."""
    found = {}
    for run, top_k in cells:
        mask = pc.and_(pc.equal(table["run"], run), pc.equal(table["top_k"], top_k))
        chosen = table.filter(mask).drop_columns(["run", "top_k"])
        found[run, top_k] = chosen.cast(schema).combine_chunks()
    return found
