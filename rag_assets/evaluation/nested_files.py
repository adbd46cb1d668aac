"""Reads runs and qrels as one JSON object, as ranx and pytrec_eval have them.

``{"q1": {"d12": 0.9, "d25": 0.8}, "q2": {}}``: query to document to score, or to grade.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from rag_assets.errors import DataError
from rag_assets.text_files import read_bytes, suffix

Numbers = Mapping[str, float]

_FORM = 'must be {"query": {"document": number}}'


def is_json(path: Path) -> bool:
    """Return whether a file's name says that it holds one JSON value, compressed or not."""
    return suffix(path) == ".json"


def read_scores(path: Path) -> dict[str, Numbers]:
    """Read a run: query id -> document id -> score; a query may have no document.

    Raises:
        DataError: the file cannot be read, is not of this form, a score is not a finite number, or
            a query or a document of it stands twice; names the file and the key.
    """
    found = {query: _numbers(value, query, path) for query, value in _content(path).items()}
    if not found:
        raise DataError("holds no queries", file=path)
    return found


def read_grades(path: Path) -> dict[str, dict[str, int]]:
    """Read qrels: query id -> document id -> grade; ``1.0`` is taken as 1.

    Raises:
        DataError: as :func:`read_scores`, or a grade is not an integer of 32 bits.
    """
    return {
        query: {name: grade(value, path, key=f"{query}.{name}") for name, value in own.items()}
        for query, own in read_scores(path).items()
    }


def grade(value: object, path: Path, *, line: int | None = None, key: str) -> int:
    """Return a number as a grade.

    Raises:
        DataError: it is not an integer of 32 bits; ``1.0`` is one.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
        raise DataError("must be an integer", file=path, line=line, key=key)
    return value


def _content(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(
            read_bytes(path).decode("utf-8-sig"),
            parse_constant=_refuse,
            object_pairs_hook=_once,
        )
    except json.JSONDecodeError as error:
        raise DataError(f"is not JSON ({error.msg})", file=path, line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        problem = f"is not JSON ({str(error) or 'nested too deep'})"
        raise DataError(problem, file=path) from error
    if not isinstance(value, dict):
        raise DataError(_FORM, file=path)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in an object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def _numbers(value: object, query: str, path: Path) -> Numbers:
    if not query or not isinstance(value, dict):
        raise DataError(_FORM, file=path, key=query)
    for name, number in value.items():
        if not name or isinstance(number, bool) or not isinstance(number, int | float):
            raise DataError(_FORM, file=path, key=f"{query}.{name}")
        if not _is_finite(number):
            raise DataError("must be a finite number", file=path, key=f"{query}.{name}")
    return value


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
