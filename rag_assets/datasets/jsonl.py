"""JSON lines as a stream: one object at a time, never the whole file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_assets.datasets.lines import read_lines
from rag_assets.datasets.strict_json import JsonError, parse_json, type_name
from rag_assets.errors import DataError


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for every line that is not blank.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or a line is not one strict JSON object.
    """
    for number, line in read_lines(path):
        try:
            value = parse_json(line)
        except JsonError as error:
            problem = f"{error.problem}; each line must be one JSON object"
            raise DataError(problem, file=path, line=number) from error
        if not isinstance(value, dict):
            found = type_name(value)
            problem = f"found {found}; each line must be one JSON object"
            raise DataError(problem, file=path, line=number)
        yield number, value
