"""Stores what a faulty computation would have: wrong values, in a file that is whole."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.atomic import remove
from tests.tiny_experiment import Tiny


def damage(tiny: Tiny, key: ArtifactKey, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace the table of an up-to-date partition by a changed one."""
    pipeline = tiny.pipeline()
    artifact = pipeline.artifact(key)
    changed = change(artifact.table())
    remove(artifact.path)  # what is there would stay
    pipeline.store.write_table(changed, artifact.manifest)
    pipeline.store.verified.save()


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
