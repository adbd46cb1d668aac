"""JSON lines whose fields are declared: each line is a msgspec struct, or one clear error.

An error names file, line and key, the value that stands there, and what is allowed: the description
of the field's type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from rag_assets.errors import DataError
from rag_assets.sources.fields import Place, Row, missing_key, shown
from rag_assets.sources.strict_json import read_objects, type_name

Id = Annotated[str | int, Meta(description="a string or an integer")]
Text = Annotated[str, Meta(description="a string")]
Position = Annotated[int, Meta(ge=0, le=2**63 - 1, description="an integer from 0 on")]
Chance = Annotated[float, Meta(gt=0, le=1, description="a number above 0 and at most 1, or null")]

Declared = TypeVar("Declared", bound=msgspec.Struct)
_KEY = re.compile(r"`\$\.(\w+)|field `(\w+)`")


def read_rows(
    file: Path, kind: type[Declared], problems: list[DataError] | None = None
) -> Iterator[tuple[Place, Declared]]:
    """Yield place and fields of every line that is not blank.

    Args:
        file: JSON lines.
        kind: the fields of a line; others are ignored unless it forbids them.
        problems: to which lines that break it are added, in place of an error.

    Raises:
        DataError: the file cannot be read, or a line breaks its declaration.
    """
    for number, row in read_objects(file):
        place = Place(file, number)
        try:
            yield place, msgspec.convert(row, kind)
        except msgspec.ValidationError as error:
            match = _KEY.search(str(error))
            key = (match[1] or match[2]) if match else ""
            problem = place.error(_problem(row, key, kind), key or None)
            if problems is None:
                raise problem from error
            problems.append(problem)


def _problem(row: Row, key: str, kind: type[msgspec.Struct]) -> str:
    if key not in row:
        return missing_key(row)
    allowed = _allowed(kind)
    if key not in allowed:
        return f"unknown key; allowed: {', '.join(allowed)}"
    value = row[key]
    if isinstance(value, str):
        text = shown(value)
    elif isinstance(value, int | float | list) and not isinstance(value, bool):
        text = shown(str(value))[1:-1]
    else:
        text = type_name(value)
    return f"is {text}; must be {allowed[key]}"


@cache
def _allowed(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return key -> what may stand under it, in words."""
    return {key: _described(t) for key, t in get_type_hints(kind, include_extras=True).items()}


def _described(annotation: Any) -> str:  # noqa: ANN401 (a type, however it is written)
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(annotation)))}"
    parts = map(_described, get_args(annotation))
    return next((part for part in parts if part), "")
