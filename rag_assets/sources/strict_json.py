"""JSON that means one thing: no NaN, no infinity, no duplicate keys, no half characters.

A text is parsed as a whole, JSON lines one object at a time.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from rag_assets.errors import DataError
from rag_assets.sources.lines import decoded, read_raw_lines, read_text
from rag_assets.sources.problems import RowError, parse_each


class JsonError(ValueError):
    """A text is not strict JSON; ``problem`` is one phrase, ``line`` and ``column`` from 1."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        """State the problem, and where it is when that is known."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


MAX_DEPTH = 100
_TOO_DEEP = f"JSON nested deeper than {MAX_DEPTH} levels"
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        JsonError: it is malformed, nests deeper than 100 levels, repeats a key in an object, or
            holds NaN, an infinite number or half of a surrogate pair.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        problem = f"malformed JSON at column {error.colno} ({error.msg})"
        raise JsonError(problem, error.lineno, error.colno) from error
    except RecursionError as error:
        raise JsonError(_TOO_DEEP) from error
    except JsonError:
        raise
    except ValueError as error:
        raise JsonError("a number with too many digits") from error
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _refuse_depth(value)
    # Only an escape can bring half a character in: raw bytes have passed the UTF-8 decoder.
    if "\\u" in text and _HALF_CHARACTER.search(text):
        _refuse_half_characters(value)
    return value


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return (line number from 1, object) for every line that is not blank.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or a line is not one strict JSON object.
    """
    return parse_each(
        lambda line: (line[0], parse_object(line[1], path, line[0])), read_raw_lines(path)
    )


def read_object(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file is.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or is not one strict JSON object.
    """
    try:
        value = parse_json(read_text(path))
    except JsonError as error:
        raise DataError(error.problem, file=path, line=error.line) from error
    if not isinstance(value, dict):
        raise DataError(f"found {type_name(value)}; must be an object", file=path)
    return value


def parse_object(raw: bytes, path: Path, number: int | None) -> dict[str, Any]:
    """Return the object on line ``number`` of a file of JSON lines.

    Raises:
        DataError: the line is not UTF-8, or not one strict JSON object.
    """
    line = decoded(raw, path, number or 1).rstrip("\r\n")
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


def type_name(value: object) -> str:
    """Return how people call the JSON type of ``value``, with its article."""
    if value is None:
        return "null"
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def _refuse_half_characters(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise JsonError("a lone surrogate (\\ud800 to \\udfff), half of a character") from error


def _refuse_depth(value: object) -> None:
    """Refuse what parses but is too deep to be written again."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [item for parent in level for item in _children(parent)]
    if level:
        raise JsonError(_TOO_DEEP)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise JsonError(f"key {twice!a} occurs twice in an object")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise JsonError(f"number {text[:20]} is out of range")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite
)
_TYPE_NAMES: dict[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}
