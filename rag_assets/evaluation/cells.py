"""Several runs, labels and cut-offs as one table each, and the table of results cut up again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

Cell = tuple[str, int]
"""A run and a cut-off."""


def stacked(label: str, tables: Mapping[str, pa.Table], columns: Sequence[str]) -> pa.Table:
    """Return the chosen columns of all tables under each other, named in the column ``label``."""
    parts = []
    for name, table in tables.items():
        names = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), [name])
        parts.append(table.select(list(columns)).append_column(label, names.cast(pa.string())))
    return pa.concat_tables(parts)


def pairs(first: str, second: str, rows: Iterable[tuple[str, str]]) -> pa.Table:
    """Return pairs of names as a table of two columns."""
    listed = list(rows)
    columns = {first: [a for a, _ in listed], second: [b for _, b in listed]}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def cutoff_table(cells: Iterable[Cell]) -> pa.Table:
    """Return cells as a table with the columns ``run`` and ``top_k``."""
    listed = list(cells)
    runs, cutoffs = [run for run, _ in listed], [top_k for _, top_k in listed]
    return pa.table({"run": pa.array(runs, pa.string()), "top_k": pa.array(cutoffs, pa.int64())})


def by_cell(table: pa.Table, cells: Iterable[Cell]) -> dict[Cell, pa.Table]:
    """Return each cell's rows of a table with the columns ``run`` and ``top_k``, without those."""
    tables = {}
    for run, top_k in cells:
        mask = pc.and_(pc.equal(table["run"], run), pc.equal(table["top_k"], top_k))
        tables[run, top_k] = table.filter(mask).drop_columns(["run", "top_k"]).combine_chunks()
    return tables
