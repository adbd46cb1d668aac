"""Typed access to the fields of a row, with errors that name the file, the line and the key.

Objects inside objects of one JSON file are told by the whole path of a key. And the notes about
rows that are odd but no error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from rag_assets.sources.problems import FORMAT, RowError, record_id
from rag_assets.sources.strict_json import type_name
from rag_assets.store.canonical import canonical_json

GRADE_LIMIT = 2**31
"""Grades are stored as signed 32-bit integers."""


ID_MARK = "/"
"""Between the parts of an id that several fields make."""

Row = Mapping[str, Any]
_PLAIN = frozenset({str, int, bool, type(None)})
_encode_sorted = msgspec.json.Encoder(order="sorted").encode

MAX_NAMED = 5
"""So many are named in a note; the rest is counted."""


class Place(NamedTuple):
    """Where a row comes from: a file, and a line where the format has lines."""

    file: Path
    line: int | None = None

    def error(self, problem: str, key: str | None = None, check: str = FORMAT) -> RowError:
        """Return the error for a problem of the kind ``check`` at this place."""
        return RowError(problem, file=self.file, line=self.line, key=key, check=check)


def shown(text: str, length: int = 60) -> str:
    """Return ``text`` as an error shows it: quoted, on one line, cut when it is long."""
    return repr(text if len(text) <= length else f"{text[:length]}...")


def identifier(row: Row, key: str, place: Place) -> str:
    """Return the id under ``key``; an integer is taken as its decimal text."""
    if key not in row:
        raise place.error(missing_key(row), key)
    return checked_id(row[key], place, key)


def joined_id(row: Row, keys: Sequence[str], place: Place) -> str:
    """Return the id under a key, or those under several keys with ``/`` between."""
    return ID_MARK.join(identifier(row, key, place) for key in keys)


def checked_id(value: object, place: Place, key: str) -> str:
    """Return ``value`` as an id: a string that is not empty, or an integer.

    Blanks are kept; a line end or NUL is refused, because run files could not hold it.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise place.error(f"is {type_name(value)}; an id must be a string or an integer", key)
    if not value:
        raise place.error("is empty; an id must have a character", key)
    if "\n" in value or "\r" in value or "\0" in value:
        raise place.error(f"id {shown(value)} holds a line end or NUL", key)
    return value


def string(row: Row, key: str, place: Place) -> str:
    """Return the string under ``key``, which must be there."""
    value = row.get(key)
    if isinstance(value, str):
        return value
    if key not in row:
        raise place.error(missing_key(row), key)
    raise place.error(f"is {type_name(value)}; must be a string", key)


def optional_string(row: Row, key: str, place: Place) -> str | None:
    """Return the string under ``key``; None when it is absent or null."""
    return string(row, key, place) if row.get(key) is not None else None


def optional_grade(row: Row, key: str, place: Place, default: int) -> int:
    """Return the grade under ``key``, an integer; ``default`` when it is absent or null."""
    value = row.get(key)
    if value is None:
        return default
    return checked_grade(value, place, key)


def checked_grade(value: object, place: Place, key: str) -> int:
    """Return ``value`` as a grade: an integer that fits the column; ``1.0`` is taken as 1."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, float):
        raise place.error(f"is {value}; a grade must be an integer", key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise place.error(f"is {type_name(value)}; a grade must be an integer", key)
    if not -GRADE_LIMIT <= value < GRADE_LIMIT:
        raise place.error("a grade must fit 32 bits", key)
    return value


def optional_tags(row: Row, key: str, place: Place) -> list[str]:
    """Return the tags under ``key``: different strings that are not empty; none when absent."""
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(tag, str) and tag for tag in value):
        raise place.error("must be a list of strings that are not empty", key)
    if len(set(value)) != len(value):
        twice = next(tag for tag, count in Counter(value).items() if count > 1)
        raise place.error(f"holds {shown(twice)} twice", key)
    return value


def metadata_json(row: Row, used: frozenset[str]) -> str:
    """Return all fields that are not ``used`` as canonical JSON.

    The fields of an object under ``metadata`` are lifted up beside the others, unless a name would
    then stand for two values; a ``metadata`` that is not an object stays under its name.
    """
    if len(row) <= len(used) and not row.keys() - used:
        return "{}"
    rest = {key: value for key, value in row.items() if key not in used}
    nested = rest.pop("metadata", None)
    if isinstance(nested, dict) and not nested.keys() & rest.keys():
        rest.update(nested)
    elif nested is not None:
        rest["metadata"] = nested
    return _canonical(rest)


@dataclass(frozen=True)
class DocumentFields:
    """Which fields of a row hold a document; all others are its metadata.

    Attributes:
        document_id: the field of the id, or several that make it together; those stay metadata,
            since the source of a document is a field of its own.
        title: a string, absent or null where there is none.
        text: a string.
    """

    document_id: tuple[str, ...]
    title: str = "title"
    text: str = "text"

    @cached_property
    def _used(self) -> frozenset[str]:
        one_id = self.document_id if len(self.document_id) == 1 else ()
        return frozenset((*one_id, self.title, self.text))

    def read(self, row: Row, place: Place) -> tuple[str, str, str, str]:
        """Return id, title, text and metadata of a row.

        Raises:
            DataError: a field breaks the contract.
        """
        document_id = joined_id(row, self.document_id, place)
        record_id("document", document_id)
        title = optional_string(row, self.title, place) or ""
        return document_id, title, string(row, self.text, place), metadata_json(row, self._used)


def _canonical(fields: dict[str, Any]) -> str:
    """Return canonical JSON; the compiled encoder writes the same where there is no float."""
    if all(type(value) in _PLAIN for value in fields.values()):
        try:
            return _encode_sorted(fields).decode()
        except (msgspec.MsgspecError, OverflowError, ValueError):
            pass
    return canonical_json(fields)


def json_value(value: object, not_finite: Callable[[], None] = lambda: None) -> object:
    """Return ``value`` with nothing in it that JSON does not know.

    Dates, times and decimals become text, as ISO 8601 where that applies, bytes hexadecimal digits;
    NaN and infinite numbers become null, and ``not_finite`` is called for each.
    """
    if isinstance(value, float) and not math.isfinite(value):
        not_finite()
        return None
    if isinstance(value, list | tuple):
        return [json_value(item, not_finite) for item in value]
    if isinstance(value, dict):
        return {str(key): json_value(item, not_finite) for key, item in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def missing_key(row: Row) -> str:
    """Return the problem of a key that a row lacks."""
    keys = ", ".join(shown(key, 30) for key in list(row)[:8]) or "none"
    return f"is missing; found keys: {keys}"


def note(one: str, many: str, names: Sequence[str]) -> list[str]:
    """Return ``['2 empty documents: 471, 995']``, or nothing when there is nothing to tell."""
    if not names:
        return []
    listed = ", ".join(_plain(name) for name in names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return [f"{len(names)} {one if len(names) == 1 else many}: {listed}{more}"]


def _plain(name: str) -> str:
    return name if name.isprintable() and len(name) <= 60 else shown(name)


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
        raise place.error(missing_key(row), key)
    if not isinstance(row[key], list):
        raise place.error(f"is {type_name(row[key])}; must be a list of objects", key)
    for index, item in enumerate(row[key]):
        inside = Inside(place.file, f"{place.inside(key)}[{index}]")
        if not isinstance(item, dict):
            raise inside.error(f"is {type_name(item)}; must be an object")
        yield item, inside
