"""Arrow tables built batch by batch, so that a large corpus never exists as Python rows."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.schemas import TableSchema

BATCH_ROWS = 16_384
BATCH_CHARACTERS = 8_000_000


class TableBuilder:
    """Collects rows and turns them into Arrow whenever a batch is full."""

    def __init__(self, schema: TableSchema) -> None:
        """Build a table of ``schema``."""
        self._schema = schema
        self._arrow = schema.arrow()
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[tuple[object, ...]] = []
        self._characters = 0

    def add(self, *values: object, characters: int = 0) -> None:
        """Add a row, its values in declared order; ``characters`` says how large it is."""
        self._rows.append(values)
        self._characters += characters
        if len(self._rows) >= BATCH_ROWS or self._characters >= BATCH_CHARACTERS:
            self._flush()

    def table(self) -> pa.Table:
        """Return the checked table of all rows."""
        self._flush()
        return self._schema.check(pa.Table.from_batches(self._batches, schema=self._arrow))

    def _flush(self) -> None:
        if self._rows:
            # The system's allocator can grow a buffer without copying it: measured faster than
            # the default pool, with less memory at the peak.
            pool = pa.system_memory_pool()
            columns = [
                pa.array(values, field.type, memory_pool=pool)
                for values, field in zip(zip(*self._rows, strict=True), self._arrow, strict=True)
            ]
            self._batches.append(pa.record_batch(columns, schema=self._arrow))
        self._rows = []
        self._characters = 0
