"""Rows of a file of JSON lines, CSV, Parquet or TREC's lines, each with its place; and whole files.

A row maps names to values that JSON can hold. JSON is strict: no NaN, no infinity, no half
characters; of a key that occurs twice in an object the last value counts. CSV has a header (RFC
4180). A row of Parquet is counted from 1 where others have a line.
"""

from __future__ import annotations

import codecs
import csv
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.input_files import content_file, opened, read_bytes, suffix
from rag_assets.sources.dataset import FIRST, Problems
from rag_assets.sources.fields import (
    Declared,
    Place,
    Row,
    checked_grade,
    checked_id,
    declared,
    note,
    shown,
    type_name,
)

PARQUET = ".parquet"
BATCH_ROWS = 1_024
MAX_DEPTH = 100
"""Levels of a JSON value; what is deeper could be parsed and not be written again."""

_MAX_CELL = 64_000_000
"""Most characters of a cell; a quote that is never closed ends here, not in all of the memory."""

Rows = Iterator[tuple[Place, Row]]
Record = tuple[Place, bytes]
"""The bytes of a row or document that can be parsed without the others."""

COMMENT = "#"
"""Begins a line of TREC's files that says nothing."""

_GRADE_NAMES = frozenset({"score", "grade", "relevance", "rel", "label"})
_PAIR_FORMS = "query, iteration, document, grade, with or without the iteration"

_BOM = codecs.BOM_UTF8
_BYTE = re.compile(r"\s*\(byte (\d+)\)")
_BROKEN = (OSError, pa.ArrowException, UnicodeDecodeError, ValueError, OverflowError, TypeError)


def unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a file or folder that the system does not let us read."""
    reason = os.strerror(error.errno) if error.errno else error  # Arrow's own text is long
    return DataError(f"cannot be read: {reason}", file=path)


def decoded(data: bytes, place: Place) -> str:
    """Return UTF-8 bytes as text; ``place`` is that of the first line."""
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
    """
    text = decoded(read_bytes(path).removeprefix(_BOM), Place(path))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_raw_lines(path: Path, *, blank: bool = False) -> Iterator[Record]:
    """Yield place and bytes, with the line end, of every line that is not blank.

    Blank lines too when ``blank``. A file whose name ends in ``.gz`` is decompressed. A byte order
    mark is skipped.
    """
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            content = raw.removeprefix(_BOM) if number == 1 else raw
            if blank or (not content.isspace() and content):
                yield Place(path, number), content


def read_contents(path: Path) -> Iterator[bytes]:
    """Yield what :func:`read_raw_lines` does without places, which take half of its time."""
    with opened(path) as stream:
        first = next(stream, b"").removeprefix(_BOM)
        yield from (line for line in chain([first], stream) if line and not line.isspace())


def read_lines(
    path: Path, problems: Problems = FIRST, *, blank: bool = False
) -> Iterator[tuple[Place, str]]:
    """Yield place and text, without the line end, of every line that is not blank.

    Only line feeds end a line (a carriage return before one is dropped), so that U+2028 or a form
    feed inside a value does no harm.
    """
    return problems.each(
        lambda line: (line[0], decoded(line[1], line[0]).rstrip("\r\n")),
        read_raw_lines(path, blank=blank),
    )


def read_fields(path: Path) -> Iterator[tuple[Place, list[str]]]:
    """Yield place and fields of every line that is neither blank nor a comment, as TREC has them.

    Any ASCII white space parts the fields, as in trec_eval; an id may hold other blanks.
    """
    for place, raw in read_raw_lines(path):
        if not raw.lstrip().startswith(COMMENT.encode()):
            decoded(raw, place)
            yield place, [field.decode() for field in raw.split()]


class Pair(NamedTuple):
    """One judgment of a query and a document."""

    query_id: str
    document_id: str
    grade: int


def read_pairs(path: Path, problems: Problems = FIRST) -> Iterator[tuple[Place, Pair]]:
    """Yield every line of a table of qrels, as TREC and BEIR have them.

    Columns are parted by tabs or, where these part no three or four, by any blanks: copies of
    classic collections have both, sometimes in one file. An iteration, second of four, is not read.
    A header is skipped, and so are comments, which hold no tab. CACM has a line ``query document 0
    0`` for each relevant document, as its first line tells.
    """
    may_be_header, is_cacm = True, None
    for place, raw in read_raw_lines(path):
        if raw.startswith(COMMENT.encode()) and b"\t" not in raw:
            continue
        with problems:
            columns = [
                column.strip(" ") for column in decoded(raw, place).strip("\r\n").split("\t")
            ]
            if len(columns) not in (3, 4):
                columns = [field.decode() for field in raw.split()]
            if len(columns) not in (3, 4):
                raise place.error(f"found {len(columns)} columns; must be {_PAIR_FORMS}")
            is_header = may_be_header and columns[-1].lower() in _GRADE_NAMES
            may_be_header = False
            if is_cacm is None and not is_header:
                is_cacm = columns[1] != "0" and columns[2:] == ["0", "0"]
            if is_cacm:
                if columns[2:] != ["0", "0"]:
                    raise place.error("must be 'query document 0 0' as the first line")
                columns[1:] = [columns[1], "1"]
            if not is_header:
                query_id = checked_id(columns[0], place, "query")
                document_id = checked_id(columns[-2], place, "document")
                yield place, Pair(query_id, document_id, checked_grade(columns[-1], place, "grade"))


def parse_json(data: bytes, place: Place) -> Any:  # noqa: ANN401 (whatever JSON can hold)
    """Return the value of a JSON text that begins at ``place``."""
    too_deep = f"JSON nested deeper than {MAX_DEPTH} levels"
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
        raise place.error(too_deep) from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise place.error(too_deep)
    return value


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def read_object(path: Path, allowed: str = "an object") -> dict[str, Any]:
    """Return the object that a JSON file is; ``allowed`` says what a file may hold."""
    value = parse_json(read_bytes(path).removeprefix(_BOM), Place(path))
    if not isinstance(value, dict):
        raise DataError(f"found {type_name(value)}; must be {allowed}", file=path)
    return value


def parse_object(record: Record) -> tuple[Place, dict[str, Any]]:
    """Return the object on a line of JSON lines, with its place."""
    place, line = record
    value = parse_json(line, place)
    if not isinstance(value, dict):
        raise place.error(f"found {type_name(value)}; each line must be one JSON object")
    return place, value


def read_objects(path: Path, problems: Problems = FIRST) -> Rows:
    """Yield place and object of every line of JSON lines that is not blank."""
    return problems.each(parse_object, read_raw_lines(path))


def read_declared(
    path: Path, kind: type[Declared], problems: Problems = FIRST
) -> Iterator[tuple[Place, Declared]]:
    """Yield place and struct of every line of JSON lines that is not blank."""
    return problems.each(
        lambda row: (row[0], declared(row[1], kind, row[0])), read_objects(path, problems)
    )


def read_csv(path: Path, problems: Problems = FIRST) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield place and cell of each column for every row below the header.

    Commas part cells; where the first line has none, semicolons or tabs. Blank lines are no rows.
    """
    csv.field_size_limit(_MAX_CELL)
    records = _csv_records(path)
    place, header = next(records, (Place(path), []))
    if not header:
        raise place.error("is empty; a header with the names of the columns is needed")
    _refuse_twice(header, place, " in the header")
    for place, cells in records:
        with problems:
            if len(cells) != len(header):
                raise place.error(f"found {len(cells)} cells; the header has {len(header)}")
            yield place, dict(zip(header, cells, strict=True))


def _refuse_twice(names: list[str], place: Place, where: str = "") -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise place.error(f"column {shown(name)} occurs twice{where}")


def _csv_records(path: Path) -> Iterator[tuple[Place, list[str]]]:
    lines = (decoded(raw, place) for place, raw in read_raw_lines(path, blank=True))
    first = next(lines, "")
    delimiter = next((sign for sign in ",;\t" if sign in first), ",")
    reader = csv.reader(chain([first], lines), strict=True, delimiter=delimiter)
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
        self._problems = problems
        self._left_out: list[str] = []
        self._not_finite: Counter[str] = Counter()

    def rows(self) -> Rows:
        """Yield place and fields of every row.

        Of Parquet dates, times and decimals become text, as ISO 8601 where that applies; NaN and
        infinite numbers become null and are counted; columns of bytes are left out and named.
        """
        if suffix(self.file) == ".csv":
            return read_csv(self.file, self._problems)
        if suffix(self.file) == PARQUET:
            return self._parquet()
        return read_objects(self.file, self._problems)

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
                schema = source.schema_arrow
                _refuse_twice(schema.names, Place(self.file))
                self._left_out = [field.name for field in schema if _holds_bytes(field.type)]
                names = [name for name in schema.names if name not in self._left_out]
                for batch in source.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                    columns = [self._column(f, batch.column(i)) for i, f in enumerate(batch.schema)]
                    for row in range(batch.num_rows):
                        number += 1
                        values = (column[row] for column in columns)
                        yield Place(self.file, number), dict(zip(names, values, strict=True))
        except _BROKEN as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(self.file, error) from error
            raise self._damaged(error) from error

    def _column(self, field: pa.Field, values: pa.Array) -> list[Any]:
        if pa.types.is_timestamp(field.type):
            values = values.cast(pa.string())  # keeps nanoseconds, which Python's type has not
        cells: list[Any] = values.to_pylist()
        if pa.types.is_string(values.type) or pa.types.is_integer(values.type):
            return cells
        count = partial(self._not_finite.update, (field.name,))
        return [_json_value(value, count) for value in cells]

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


def _json_value(value: object, not_finite: Callable[[], None]) -> object:
    """Return ``value`` with nothing in it that JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        not_finite()
        return None
    if isinstance(value, list | tuple):
        return [_json_value(item, not_finite) for item in value]
    if isinstance(value, dict):
        return {str(key): _json_value(item, not_finite) for key, item in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | timedelta) else value
