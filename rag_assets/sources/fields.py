"""Typed access to the fields of a row, with errors that name the file, the line and the key.

A row whose fields are fixed is declared as a msgspec struct; fields that have other names in each
file are read one by one. Every error says what stands there and what is allowed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from rag_assets.sources.dataset import FORMAT, RowError
from rag_assets.store.canonical import canonical_json

GRADE_LIMIT = 2**31
"""Grades are stored as signed 32-bit integers."""

Id = Annotated[
    Annotated[str, Meta(min_length=1, pattern=r"^[^\n\r\0]*\Z")] | int,
    Meta(description="an id: a text of one line that is not empty, or an integer"),
]
"""Run files hold ids, so a line end or NUL is refused; an integer is taken as its decimal text."""

Text = Annotated[str, Meta(description="a string")]
Position = Annotated[int, Meta(ge=0, le=2**63 - 1, description="an integer from 0 on")]
Chance = Annotated[float, Meta(gt=0, le=1, description="a number above 0 and at most 1, or null")]
Grade = Annotated[
    int, Meta(ge=-GRADE_LIMIT, lt=GRADE_LIMIT, description="a grade: an integer that fits 32 bits")
]
TIME = "a time such as 2026-03-01T09:30:00Z"
Time = Annotated[str | int, Meta(description=TIME)]
Tags = Annotated[
    list[Annotated[str, Meta(min_length=1)]],
    Meta(description="a list of different strings that are not empty"),
]

Row = Mapping[str, Any]
Declared = TypeVar("Declared", bound=msgspec.Struct)

MAX_NAMED = 5
"""So many are named in a note; the rest is counted."""

_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}
composed = partial(unicodedata.normalize, "NFC")
"""Makes texts the same that look the same, such as a letter with its accent, or beside it."""

_ID_TEXT = re.compile(r"[^\n\r\0]+")
_KEY = re.compile(r"`\$\.([^`.\[]+)|field `([^`]+)`")
_PLAIN = frozenset({str, int, bool, type(None)})
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def shown(text: str, length: int = 60) -> str:
    """Return ``text`` as an error shows it: quoted, on one line, cut when it is long."""
    return repr(text if len(text) <= length else f"{text[:length]}...")


def type_name(value: object) -> str:
    """Return how people call the JSON type of ``value``, with its article."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def missing_key(row: Row) -> str:
    """Return the problem of a key that a row lacks."""
    keys = ", ".join(shown(key, 30) for key in list(row)[:8]) or "none"
    return f"is missing; found keys: {keys}"


class Place(NamedTuple):
    """Where a row comes from.

    Attributes:
        file: the file.
        line: counted from 1, where the format has lines.
        path: where it stands inside the JSON value of a file, as ``data[0].paragraphs[2]``.
    """

    file: Path
    line: int | None = None
    path: str = ""

    def inside(self, key: str | None) -> str | None:
        """Return the path of ``key`` from the top of the file."""
        return f"{self.path}.{key}" if key and self.path else key or self.path or None

    def error(self, problem: str, key: str | None = None, check: str = FORMAT) -> RowError:
        """Return the error for a problem of the kind ``check`` at this place."""
        key = self.inside(key)
        return RowError(problem, file=self.file, line=self.line, key=key, check=check)

    def wrong(self, value: object, allowed: str, key: str | None = None) -> RowError:
        """Return the error for a value that is not as it must be."""
        if isinstance(value, str):
            described = shown(value)
        elif isinstance(value, int | float | list) and not isinstance(value, bool):
            described = shown(str(value))[1:-1]
        else:
            described = type_name(value)
        return self.error(f"is {described}; must be {allowed}", key)


def checked_id(value: object, place: Place, key: str) -> str:
    """Return ``value`` as an id (:data:`Id`)."""
    if type(value) is str and _ID_TEXT.fullmatch(value):
        return value  # as nearly all are; converting takes five times as long
    return str(_converted(value, Id, place, key, strict=True))


def checked_grade(value: object, place: Place, key: str) -> int:
    """Return ``value`` as a grade; ``1.0`` and the text ``1`` are taken as 1."""
    grade: int = _converted(value, Grade, place, key)
    return grade


def read_time(value: str | int, place: Place, key: str) -> datetime:
    """Return a time of ISO 8601, in UTC where it names no zone, or milliseconds since 1970."""
    try:
        if isinstance(value, int):
            return datetime.fromtimestamp(value / 1000, UTC)
        time = datetime.fromisoformat(value)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise place.wrong(value, TIME, key) from error


def _converted(value: object, kind: Any, place: Place, key: str, *, strict: bool = False) -> Any:  # noqa: ANN401
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise place.wrong(value, _allowed(kind), key) from error


def present(row: Row, key: str, place: Place) -> Any:  # noqa: ANN401 (whatever JSON can hold)
    """Return what is under ``key``."""
    if key not in row:
        raise place.error(missing_key(row), key)
    return row[key]


def identifier(row: Row, key: str, place: Place) -> str:
    """Return the id under ``key``."""
    return checked_id(present(row, key, place), place, key)


def joined_id(row: Row, keys: Sequence[str], place: Place) -> str:
    """Return the id under a key, or those under several keys with ``/`` between."""
    return "/".join(identifier(row, key, place) for key in keys)


def string(row: Row, key: str, place: Place) -> str:
    """Return the string under ``key``, which must be there."""
    value = row.get(key)
    if isinstance(value, str):
        return value
    raise place.wrong(present(row, key, place), "a string", key)


def optional_tags(row: Row, key: str, place: Place) -> list[str]:
    """Return the tags under ``key``; none when absent."""
    tags: list[str] = _converted(row.get(key) or [], Tags, place, key)
    if len(set(tags)) < len(tags):
        raise place.wrong(tags, _allowed(Tags), key)
    return tags


def items(row: Row, key: str, place: Place) -> Iterator[tuple[dict[str, Any], Place]]:
    """Yield every object of the list under ``key`` with its place."""
    values = present(row, key, place)
    if not isinstance(values, list):
        raise place.wrong(values, "a list of objects", key)
    for index, item in enumerate(values):
        inside = place._replace(path=f"{place.inside(key) or ''}[{index}]")
        if not isinstance(item, dict):
            raise inside.wrong(item, "an object")
        yield item, inside


def declared(row: Row, kind: type[Declared], place: Place, *, is_text: bool = False) -> Declared:
    """Return a row as the struct that declares its fields.

    Args:
        row: names to values.
        kind: the fields; others are ignored unless it forbids them.
        place: of the row.
        is_text: whether numbers may be written as text, as in CSV.
    """
    try:
        return msgspec.convert(row, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        match = _KEY.search(str(error))
        key = (match[1] or match[2]) if match else ""
        if key not in row:
            raise place.error(missing_key(row), key or None) from error
        fields = _fields(kind)
        if key not in fields:
            raise place.error(f"unknown key; allowed: {', '.join(fields)}", key) from error
        raise place.wrong(row[key], fields[key], key) from error


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return key -> what may stand under it, in words."""
    return {field.encode_name: _allowed(field.type) for field in msgspec.structs.fields(kind)}


def _allowed(annotation: Any) -> str:  # noqa: ANN401 (a type, however it is written)
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(annotation)))}"
    return next((words for part in get_args(annotation) if (words := _allowed(part))), "")


def metadata_json(row: Row, used: frozenset[str]) -> str:
    """Return all fields that are not ``used`` as canonical JSON.

    The fields of an object under ``metadata`` are lifted up beside the others, unless a name would
    then stand for two values; a ``metadata`` that is not an object stays under its name.
    """
    rest = {key: value for key, value in row.items() if key not in used}
    if not rest:
        return "{}"
    nested = rest.pop("metadata", None)
    if isinstance(nested, dict) and not nested.keys() & rest.keys():
        rest.update(nested)
    elif nested is not None:
        rest["metadata"] = nested
    if all(type(value) in _PLAIN for value in rest.values()):
        try:  # the compiled encoder writes the same where there is no float
            return _encode_sorted(rest).decode()
        except (msgspec.MsgspecError, OverflowError, ValueError):
            pass
    return canonical_json(rest)


class DocumentFields(NamedTuple):
    """Which fields of a row hold a document; all others are its metadata.

    Attributes:
        document_id: the field of the id, or several that make it together; those stay metadata,
            since the source of a document is a field of its own.
        title: a string, absent or null where there is none; None: no document has one.
        text: a string.
    """

    document_id: tuple[str, ...]
    title: str | None = "title"
    text: str = "text"

    def read_id(self, row: Row, place: Place) -> str:
        """Return the id of a document."""
        return joined_id(row, self.document_id, place)

    def read_rest(self, row: Row, place: Place) -> tuple[str, str, str]:
        """Return title, text and metadata of a document."""
        has_title = self.title is not None and row.get(self.title) is not None
        title = string(row, self.title or "", place) if has_title else ""
        return title, string(row, self.text, place), metadata_json(row, _used(self))


@cache
def _used(fields: DocumentFields) -> frozenset[str]:
    ids = fields.document_id if len(fields.document_id) == 1 else ()
    return frozenset((*ids, fields.title or fields.text, fields.text))


def note(one: str, many: str, names: Iterable[str]) -> list[str]:
    """Return ``['2 empty documents: 471, 995']``, or nothing when there is nothing to tell."""
    names = list(names)
    if not names:
        return []
    plain = (n if n.isprintable() and len(n) <= 60 else shown(n) for n in names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return [f"{len(names)} {one if len(names) == 1 else many}: {', '.join(plain)}{more}"]
