"""JSON lines as a stream: one object at a time, never the whole file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rag_assets.sources.fast_json import parse_object
from rag_assets.sources.lines import decoded, read_raw_lines
from rag_assets.sources.problems import RowError, tolerated
from rag_assets.sources.strict_json import JsonError, parse_json, type_name


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
        found = type_name(value)
        problem = f"found {found}; each line must be one JSON object"
        raise RowError(problem, file=path, line=number)
    return value
