"""Parquet files as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.store.large_tables import read_groups


def read_parquet(
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    mapped: bool = False,
    in_memory: int | None = None,
) -> pa.Table:
    """Return a file, or some columns of it in this order; a large one is read faster ``mapped``.

    What is more than ``in_memory`` takes no memory, see :mod:`rag_assets.store.large_tables`.

    Not by ``pyarrow.parquet.read_table``, which reads folders too: for them it imports pandas where
    it is installed, which takes longer than most files, and takes folder names such as ``a=b`` for
    columns.

    Raises:
        OSError: the file cannot be read.
        pyarrow.ArrowException: it is damaged, or lacks a column.
    """
    with pq.ParquetFile(path, memory_map=mapped) as file:
        missing = set(columns or ()) - set(file.schema_arrow.names)
        if missing:
            raise pa.ArrowInvalid(f"there is no column {', '.join(sorted(missing))}")
        table = read_groups(file, path.parent.parent, columns, in_memory)
        return table if columns is None else table.select(list(columns))
