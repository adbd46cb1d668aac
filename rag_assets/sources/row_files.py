"""Rows of a file of JSON lines, CSV or Parquet, each with its place; and text and whole JSON files.

A row maps names to values that JSON can hold. JSON is strict: no NaN, no infinity, no half
characters; of a key that stands twice in an object the last value counts. CSV has a header (RFC
4180). A row of Parquet is counted from 1 where others have a line.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.regular_files import content_file
from rag_assets.sources.fields import (
    Declared,
    Place,
    Row,
    declared,
    json_value,
    note,
    shown,
    type_name,
)
from rag_assets.sources.problems import FIRST, Problems
from rag_assets.text_files import opened, read_bytes, suffix

PARQUET = ".parquet"
BATCH_ROWS = 1_024
MAX_DEPTH = 100
"""Levels of a JSON value; what is deeper could be parsed and not be written again."""

_MAX_CELL = 64_000_000
"""Most characters of a cell; a quote that is never closed ends here, not in all of the memory."""

Rows = Iterator[tuple[Place, Row]]
Record = tuple[Place, bytes]
"""The bytes of a row or document that can be parsed without the others."""

_BOM = codecs.BOM_UTF8
_BYTE = re.compile(r"\s*\(byte (\d+)\)")
_BROKEN = (pa.ArrowException, UnicodeDecodeError, ValueError, OverflowError, TypeError)


def unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a file or folder that the system does not let us read."""
    reason = os.strerror(error.errno) if error.errno else error  # Arrow's own text is long
    return DataError(f"cannot be read: {reason}", file=path)


def decoded(data: bytes, place: Place) -> str:
    """Return UTF-8 bytes as text; ``place`` is that of the first line.

    Raises:
        DataError: they are not UTF-8; names the line.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        first = place.line or 1
        line = first + data.count(b"\n", 0, error.start)
        start = data.rfind(b"\n", 0, error.start) + 1
        problem = f"not UTF-8: byte 0x{data[error.start]:02x}, the {error.start - start + 1}. "
        problem += "of its line"
        if first == 1 and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            problem = "looks like UTF-16; must be UTF-8"
        raise place._replace(line=line).error(problem) from error


def read_text(path: Path) -> str:
    """Return a whole file as text, without byte order mark, every line ended by a line feed.

    A file whose name ends in ``.gz`` is decompressed.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    text = decoded(read_bytes(path).removeprefix(_BOM), Place(path))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_raw_lines(path: Path, *, blank: bool = False) -> Iterator[Record]:
    """Yield place and bytes, with the line end, of every line that is not blank.

    Blank lines too when ``blank``. A file whose name ends in ``.gz`` is decompressed. A byte order
    mark is skipped.

    Raises:
        DataError: the file cannot be read.
    """
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            content = raw.removeprefix(_BOM) if number == 1 else raw
            if blank or (not content.isspace() and content):
                yield Place(path, number), content


def read_lines(
    path: Path, problems: Problems = FIRST, *, blank: bool = False
) -> Iterator[tuple[Place, str]]:
    """Yield place and text, without the line end, of every line that is not blank.

    Only line feeds end a line (a carriage return before one is dropped), so that U+2028 or a form
    feed inside a value does no harm.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    return problems.each(
        lambda line: (line[0], decoded(line[1], line[0]).rstrip("\r\n")),
        read_raw_lines(path, blank=blank),
    )


def parse_json(data: bytes, place: Place) -> Any:  # noqa: ANN401 (whatever JSON can hold)
    """Return the value of a JSON text that begins at ``place``.

    Raises:
        DataError: it is not UTF-8, not strict JSON, or nests deeper than 100 levels.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        decoded(data, place)
        text = str(error).removeprefix("JSON is malformed: ").partition(" - at")[0]
        byte = _BYTE.search(text)
        position = int(byte[1]) if byte else len(data.rstrip())
        start = data.rfind(b"\n", 0, position) + 1
        if place.line is None:
            place = place._replace(line=data.count(b"\n", 0, position) + 1)
        reason = _BYTE.sub("", text)
        column = f" at byte {position - start + 1}" if byte else ""
        raise place.error(f"malformed JSON{column} ({reason[0].lower()}{reason[1:]})") from error
    except RecursionError as error:
        raise place.error(f"JSON nested deeper than {MAX_DEPTH} levels") from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_too_deep(value):
        raise place.error(f"JSON nested deeper than {MAX_DEPTH} levels")
    return value


def _is_too_deep(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for parent in level
            if isinstance(parent, dict | list)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return bool(level)


def read_object(path: Path, allowed: str = "an object") -> dict[str, Any]:
    """Return the object that a JSON file is; ``allowed`` says what a file may hold.

    Raises:
        DataError: the file cannot be read, or is not one strict JSON object.
    """
    value = parse_json(read_bytes(path).removeprefix(_BOM), Place(path))
    if not isinstance(value, dict):
        raise DataError(f"found {type_name(value)}; must be {allowed}", file=path)
    return value


def parse_object(record: Record) -> tuple[Place, dict[str, Any]]:
    """Return the object on a line of JSON lines, with its place.

    Raises:
        DataError: the line is not one strict JSON object.
    """
    place, line = record
    value = parse_json(line, place)
    if not isinstance(value, dict):
        raise place.error(f"found {type_name(value)}; each line must be one JSON object")
    return place, value


def read_objects(path: Path, problems: Problems = FIRST) -> Rows:
    """Yield place and object of every line of JSON lines that is not blank.

    Raises:
        DataError: the file cannot be read, or a line is not one strict JSON object.
    """
    return problems.each(parse_object, read_raw_lines(path))


def read_declared(
    path: Path, kind: type[Declared], problems: Problems = FIRST
) -> Iterator[tuple[Place, Declared]]:
    """Yield place and struct of every line of JSON lines that is not blank.

    Raises:
        DataError: the file cannot be read, or a line breaks its declaration.
    """
    return problems.each(
        lambda row: (row[0], declared(row[1], kind, row[0])), read_objects(path, problems)
    )


def read_csv(path: Path, problems: Problems = FIRST) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield place and cell of each column for every row below the header.

    Cells are separated by commas and kept to the character; blank lines are no rows.

    Raises:
        DataError: the file cannot be read, is not UTF-8, has no usable header, or a row has
            another number of cells or a quote that is not closed.
    """
    csv.field_size_limit(_MAX_CELL)
    records = _csv_records(path)
    place, header = next(records, (Place(path), []))
    if not header:
        raise place.error("is empty; a header with the names of the columns is needed")
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise place.error(f"header {shown(header[0])}: cells must be separated by commas")
    for name, count in Counter(header).items():
        if count > 1:
            raise place.error(f"column {shown(name)} occurs twice in the header")
    for place, cells in records:
        with problems:
            if len(cells) != len(header):
                raise place.error(f"found {len(cells)} cells; the header has {len(header)}")
            yield place, dict(zip(header, cells, strict=True))


def _csv_records(path: Path) -> Iterator[tuple[Place, list[str]]]:
    lines = (decoded(raw, place) for place, raw in read_raw_lines(path, blank=True))
    reader = csv.reader(lines, strict=True)
    while True:
        place = Place(path, reader.line_num + 1)
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise place.error(f"malformed CSV ({error})") from error
        if cells:
            yield place, cells


class RowFile:
    """A file of JSON lines, CSV (every value is text) or Parquet, as its name says.

    Nothing is opened before its rows are asked for.
    """

    def __init__(self, file: Path, problems: Problems = FIRST) -> None:
        self.file = file
        self.has_records = suffix(file) != PARQUET
        """Whether each row can be parsed without the others."""
        self._problems = problems
        self._left_out: list[str] = []
        self._not_finite: Counter[str] = Counter()

    def rows(self) -> Rows:
        """Yield place and fields of every row.

        Of Parquet dates, times and decimals become text, as ISO 8601 where that applies; NaN and
        infinite numbers become null and are counted; columns of bytes are left out and named.

        Raises:
            DataError: the file cannot be read, or a row breaks the format.
        """
        if suffix(self.file) == ".csv":
            return read_csv(self.file, self._problems)
        return read_objects(self.file, self._problems) if self.has_records else self._parquet()

    def records(self) -> Iterator[Record]:
        """Yield place and bytes of every row, as :func:`parse_object` takes them."""
        if suffix(self.file) != ".csv":
            return read_raw_lines(self.file)
        return ((place, msgspec.json.encode(cells)) for place, cells in read_csv(self.file))

    def notes(self) -> list[str]:
        """Return a line for each thing that was not handed on as it was, after the last row."""
        left_out = ("column of bytes is left out", "columns of bytes are left out")
        lines = note(*left_out, [shown(name, 30) for name in self._left_out])
        for name, count in self._not_finite.items():
            what = "value is NaN or infinite" if count == 1 else "values are NaN or infinite"
            lines.append(f"{count} {what} and became null: column {shown(name, 30)}")
        return lines

    def _parquet(self) -> Rows:
        self._not_finite.clear()
        number = 0
        try:
            with pq.ParquetFile(content_file(self.file), pre_buffer=False) as source:
                names = self._column_names(source.schema_arrow)
                for batch in source.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                    for row in self._values(batch):
                        number += 1
                        yield Place(self.file, number), row
        except DataError:
            raise
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
        columns = [self._column(field, batch.column(i)) for i, field in enumerate(batch.schema)]
        if not columns:
            return [{} for _ in range(batch.num_rows)]
        names = batch.schema.names
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    def _column(self, field: pa.Field, values: pa.Array) -> list[Any]:
        if pa.types.is_timestamp(field.type):
            values = values.cast(pa.string())  # keeps nanoseconds, which Python's type has not
        cells: list[Any] = values.to_pylist()
        if pa.types.is_string(values.type) or pa.types.is_integer(values.type):
            return cells
        count = partial(self._not_finite.update, (field.name,))
        return [json_value(value, count) for value in cells]

    def _damaged(self, error: Exception) -> DataError:
        text = str(error).strip() or type(error).__name__
        return Place(self.file).error(f"cannot be read as Parquet: {text.splitlines()[0][:200]}")


def _holds_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    if types.is_fixed_size_binary(kind):
        return not types.is_decimal(kind)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return True
    return any(_holds_bytes(kind.field(i).type) for i in range(kind.num_fields))


def read_rows(files: Iterable[RowFile]) -> Rows:
    """Yield the rows of several files, one after the other."""
    for file in files:
        yield from file.rows()
