"""Objects inside objects of one JSON file, with errors that name the whole path of a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from rag_assets.sources.fields import Place
from rag_assets.sources.problems import FORMAT, RowError
from rag_assets.sources.strict_json import type_name


class Inside(Place):
    """A place inside the JSON value of a file, as ``data[0].paragraphs[2]``."""

    path: str

    def __new__(cls, file: Path, path: str = "") -> Self:
        """Return the place at ``path``; the whole value without one."""
        place = super().__new__(cls, file)
        place.path = path
        return place

    def error(self, problem: str, key: str | None = None, check: str = FORMAT) -> RowError:
        """Return the error for a problem at this place, with the whole path of ``key``."""
        return super().error(problem, self.inside(key), check)

    def inside(self, key: str | None) -> str | None:
        """Return the path of ``key`` from the top of the file."""
        return f"{self.path}.{key}" if key and self.path else key or self.path or None


def full_key(place: Place, key: str) -> str:
    """Return ``key`` with the path that leads to it, where the place has one."""
    return (place.inside(key) if isinstance(place, Inside) else None) or key


def items(row: dict[str, Any], key: str, place: Inside) -> Iterator[tuple[dict[str, Any], Inside]]:
    """Yield every object of the list under ``key`` with its place.

    Raises:
        DataError: the key is missing, or does not hold a list of objects.
    """
    if key not in row:
        found = ", ".join(map(repr, list(row)[:8])) or "none"
        raise place.error(f"is missing; found keys: {found}", key)
    if not isinstance(row[key], list):
        raise place.error(f"is {type_name(row[key])}; must be a list of objects", key)
    for index, item in enumerate(row[key]):
        inside = Inside(place.file, f"{place.inside(key)}[{index}]")
        if not isinstance(item, dict):
            raise inside.error(f"is {type_name(item)}; must be an object")
        yield item, inside
