"""Rows of a file of JSON lines, CSV or Parquet, each with its place: the suffix says which it is.

A row maps names to values that JSON can hold. A row of Parquet is counted from 1 where others have
a line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.regular_files import content_file
from rag_assets.sources.csv_files import read_csv
from rag_assets.sources.fields import Place, Row, json_value, note, shown
from rag_assets.sources.lines import read_raw_lines, unreadable
from rag_assets.sources.problems import parse_each
from rag_assets.sources.strict_json import parse_object, read_objects
from rag_assets.text_files import suffix

PARQUET = ".parquet"
BATCH_ROWS = 1_024

Rows = Iterator[tuple[Place, Row]]
RawRow = tuple[Place, bytes]

_BROKEN = (pa.ArrowException, UnicodeDecodeError, ValueError, OverflowError, TypeError)


class RowFile(ABC):
    """One file; nothing is opened before its rows are asked for."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @abstractmethod
    def rows(self) -> Rows:
        """Yield place and fields of every row.

        Raises:
            DataError: the file cannot be read, or a row breaks the format.
        """

    def notes(self) -> list[str]:
        """Return what could not be handed on as it was, after the last row."""
        return []


class RawRowFile(RowFile):
    """A file of which each row can be parsed without the others."""

    @abstractmethod
    def raw_rows(self) -> Iterator[RawRow]:
        """Yield place and bytes of every row."""

    @abstractmethod
    def parsed(self, raw_rows: Iterable[RawRow]) -> Rows:
        """Yield place and fields of some raw rows."""


class JsonLinesFile(RawRowFile):
    """JSON lines, one object a line."""

    def rows(self) -> Rows:
        """Yield place and fields of every line that is not blank."""
        for number, row in read_objects(self.file):
            yield Place(self.file, number), row

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield place and bytes of every line that is not blank."""
        for number, line in read_raw_lines(self.file):
            yield Place(self.file, number), line

    def parsed(self, raw_rows: Iterable[RawRow]) -> Rows:
        """Yield place and object of some lines."""
        return parse_each(
            lambda row: (row[0], parse_object(row[1], row[0].file, row[0].line)), raw_rows
        )


class CsvFile(RawRowFile):
    """CSV with a header; every value is text."""

    def rows(self) -> Rows:
        """Yield place and cells of every row below the header."""
        for line, cells in read_csv(self.file):
            yield Place(self.file, line), cells

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield every row as bytes; where a row ends, only a parser of all lines can tell."""
        for line, cells in read_csv(self.file):
            yield Place(self.file, line), msgspec.json.encode(cells)

    def parsed(self, raw_rows: Iterable[RawRow]) -> Rows:
        """Yield place and cells of some rows."""
        for place, row in raw_rows:
            yield place, msgspec.json.decode(row)


class ParquetFile(RowFile):
    """Parquet, read batch by batch; remembers what it could not hand on as it was."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._left_out: list[str] = []
        self._not_finite: dict[str, int] = {}

    def rows(self) -> Rows:
        """Yield place and value of each column of every row.

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
                yield Place(self.file, number), row

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

        def count() -> None:
            self._not_finite[field.name] = self._not_finite.get(field.name, 0) + 1

        return [json_value(value, count) for value in cells]

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


_FILES: dict[str, type[RowFile]] = {".csv": CsvFile, PARQUET: ParquetFile}


def row_file(path: Path) -> RowFile:
    """Return the reader of a file, by its suffix; JSON lines where it says nothing else."""
    return _FILES.get(suffix(path), JsonLinesFile)(path)
