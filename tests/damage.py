"""Damages what is stored: the file of an artifact is written again, its manifest as it was."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.store.artifacts import ArtifactKey
from tests.tiny_experiment import Tiny


def damage(tiny: Tiny, key: ArtifactKey, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace the table of an up-to-date partition by a changed one."""
    path = tiny.pipeline().artifact(key).path
    table = pq.read_table(path, partitioning=None)
    changed = change(table.replace_schema_metadata(None))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)


def set_cell(column: str, row: int, value: object) -> Callable[[pa.Table], pa.Table]:
    """Return a change of one value of a table."""

    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        values[row] = value
        place = table.column_names.index(column)
        field = table.schema.field(column)
        return table.set_column(place, field, pa.array(values, field.type))

    return change


def drop_query(query_id: str) -> Callable[[pa.Table], pa.Table]:
    """Return a change that leaves out all rows of a query."""

    def change(table: pa.Table) -> pa.Table:
        kept = [row != query_id for row in table.column("query_id").to_pylist()]
        return table.filter(pa.array(kept))

    return change
