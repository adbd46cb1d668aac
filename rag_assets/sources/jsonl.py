"""JSON lines as a stream: one object at a time, never the whole file.

msgspec parses, at the speed of a compiled parser; whatever it refuses, and whatever could break a
rule that it does not know, goes to the strict parser, which alone decides and words the error. Both
accept the same texts with the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rag_assets.sources.lines import decoded, read_raw_lines
from rag_assets.sources.problems import RowError, tolerated
from rag_assets.sources.strict_json import MAX_DEPTH, JsonError, parse_json, type_name

_decode = msgspec.json.Decoder().decode


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return (line number from 1, object) for every line that is not blank.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or a line is not one strict JSON object.
    """
    return parsed_objects(path, read_raw_lines(path))


def parsed_objects(
    path: Path, lines: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each of some lines of a file.

    Raises:
        DataError: a line is not UTF-8, or not one strict JSON object.
    """
    for number, raw in lines:
        value = parse_object(raw)
        if value is None:
            with tolerated():
                value = _strict_object(raw, path, number)
        if value is not None:
            yield number, value


def _strict_object(raw: bytes, path: Path, number: int) -> dict[str, Any]:
    line = decoded(raw, path, number).rstrip("\r\n")
    try:
        value = parse_json(line)
    except JsonError as error:
        problem = f"{error.problem}; each line must be one JSON object"
        raise RowError(problem, file=path, line=number) from error
    if not isinstance(value, dict):
        kind = type_name(value)
        problem = f"found {kind}; each line must be one JSON object"
        raise RowError(problem, file=path, line=number)
    return value


def parse_object(raw: bytes) -> dict[str, Any] | None:
    """Return the object of one line; None when the strict parser has to look at it.

    A repeated key is seen by counting: every colon of the line belongs to a key or stands inside
    a string, so the colons of the parsed keys and strings, and one for each key, must add up. A
    key that was dropped leaves some over. Lines with an escaped colon go to the strict parser.
    """
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return None
    if type(value) is not dict or (b"\\" in raw and b"\\u003" in raw):
        return None
    try:
        return value if raw.count(b":") == _colons(value, MAX_DEPTH) else None
    except _TooDeepError:
        return None


class _TooDeepError(ValueError):
    """The value nests deeper than strict JSON may."""


def _colons(fields: dict[str, Any], depth: int) -> int:
    """Return the colons that a line of these fields must have."""
    count = len(fields)
    for key, value in fields.items():
        if ":" in key:
            count += key.count(":")
        kind = type(value)
        if kind is str:
            count += value.count(":")
        elif kind is dict or kind is list:
            count += _colons_within(value, depth - 1)
    return count


def _colons_within(value: object, depth: int) -> int:
    if isinstance(value, str):
        return value.count(":")
    if not isinstance(value, (dict, list)):
        return 0
    if depth <= 0:
        raise _TooDeepError
    if isinstance(value, dict):
        return _colons(value, depth)
    return sum(_colons_within(item, depth - 1) for item in value)
