"""Rows of a Parquet file as values that JSON can hold, batch by batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.regular_files import content_file
from rag_assets.sources.fields import Place, note, shown
from rag_assets.sources.lines import unreadable

BATCH_ROWS = 1_024

_BROKEN = (pa.ArrowException, UnicodeDecodeError, ValueError, OverflowError, TypeError)


class ParquetRows:
    """Reads a file, and remembers what it could not hand on as it was."""

    def __init__(self, file: Path) -> None:
        """Read ``file``; nothing is opened yet."""
        self.file = file
        self._left_out: list[str] = []
        self._not_finite: dict[str, int] = {}

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (row number from 1, value of each column).

        Dates, times and decimals become text, as ISO 8601 where that applies; NaN and infinite
        numbers become null and are counted; columns of bytes are left out and named.

        Raises:
            DataError: the file cannot be read, is not Parquet, is damaged, holds text that is not
                UTF-8, or has two columns of one name.
        """
        self._left_out, self._not_finite = [], {}
        number = 0
        for batch in self._batches():
            for row in self._values(batch):
                number += 1
                yield number, row

    def notes(self) -> list[str]:
        """Return one line for each thing that was not handed on as it was."""
        left_out = ("column of bytes is left out", "columns of bytes are left out")
        lines = note(*left_out, [shown(name, 30) for name in self._left_out])
        for name, count in self._not_finite.items():
            what = "value is NaN or infinite" if count == 1 else "values are NaN or infinite"
            lines.append(f"{count} {what} and became null: column {shown(name, 30)}")
        return lines

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            with pq.ParquetFile(content_file(self.file), pre_buffer=False) as source:
                names = self._column_names(source.schema_arrow)
                yield from source.iter_batches(BATCH_ROWS, columns=names, use_threads=False)
        except OSError as error:
            if error.errno is not None:
                raise unreadable(self.file, error) from error
            raise self._damaged(error) from error
        except _BROKEN as error:
            raise self._damaged(error) from error

    def _column_names(self, schema: pa.Schema) -> list[str]:
        for name, count in Counter(schema.names).items():
            if count > 1:
                raise Place(self.file).error(f"column {shown(name)} occurs twice")
        self._left_out = [field.name for field in schema if _holds_bytes(field.type)]
        return [name for name in schema.names if name not in self._left_out]

    def _values(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        try:
            columns = [self._column(field, batch.column(i)) for i, field in enumerate(batch.schema)]
        except _BROKEN as error:
            raise self._damaged(error) from error
        names = batch.schema.names
        if not names:
            return [{} for _ in range(batch.num_rows)]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    def _column(self, field: pa.Field, values: pa.Array) -> list[Any]:
        if pa.types.is_timestamp(field.type):
            values = values.cast(pa.string())  # keeps nanoseconds, which Python's type has not
        cells: list[Any] = values.to_pylist()
        if _is_plain(field.type):
            return cells
        return [self._json_value(value, field.name) for value in cells]

    def _json_value(self, value: object, column: str) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            self._not_finite[column] = self._not_finite.get(column, 0) + 1
            return None
        if isinstance(value, (list, tuple)):
            return [self._json_value(item, column) for item in value]
        if isinstance(value, dict):
            return {key: self._json_value(item, column) for key, item in value.items()}
        if isinstance(value, (date, datetime, time)):
            return value.isoformat()
        return str(value) if isinstance(value, (Decimal, timedelta)) else value

    def _damaged(self, error: Exception) -> DataError:
        return Place(self.file).error(f"cannot be read as Parquet: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_timestamp(kind)
    )


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return True
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return not pa.types.is_decimal(kind)
    if pa.types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    return any(_holds_bytes(kind.field(i).type) for i in range(kind.num_fields))
