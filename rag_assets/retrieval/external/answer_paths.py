"""Hits in a JSON answer, found by JMESPaths (jmespath.org), and what to say where there are none.

An answer that is not what the paths say is no empty ranking: its query fails, with the reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from rag_assets.plain_text import shortened
from rag_assets.retrieval.external.base import Hit
from rag_assets.servers.failures import message_in

Json = Any
"""What ``json.loads`` gives."""


class Unusable(Exception):
    """An answer is not what the options say; names the option, its path and what is there."""


def _is_path(text: str) -> str:
    import jmespath

    try:
        jmespath.compile(text)
    except jmespath.exceptions.JMESPathError as error:
        problem = str(error).splitlines()[0]
        raise ValueError(f"'{text}' is not a JMESPath: {problem}") from error
    return text


JmesPath = Annotated[str, Field(min_length=1), AfterValidator(_is_path)]
"""A JMESPath as text."""


def value_at(option: str, path: str, answer: Json, place: str = "") -> Json:
    """Return what the path of an option leads to; None where it leads nowhere.

    Args:
        option: for the message.
        path: a JMESPath.
        answer: where it begins.
        place: what the message begins with.

    Raises:
        Unusable: a function in the path cannot take what it finds.
    """
    import jmespath

    try:
        return jmespath.search(path, answer)
    except Exception as error:  # whatever the library makes of what a server sends
        problem = " ".join(str(error).split())
        raise Unusable(f"{place}`{option}: {path}`: {problem}") from error


def list_at(option: str, path: str, answer: Json) -> list[Json]:
    """Return the list that the path of an option leads to.

    Raises:
        Unusable: it leads nowhere, or to something else.
    """
    found = value_at(option, path, answer)
    if found is None:
        told = message_in(answer)
        said = f"; the server says: {told}" if told else ""
        raise Unusable(f"`{option}: {path}` matches nothing in {_named(answer)}{said}")
    if not isinstance(found, list):
        raise Unusable(f"`{option}: {path}` is {_named(found)}; it must be a list")
    return found


def require_no_error(path: str, answer: Json) -> None:
    """Check that the option ``error`` leads to nothing, or to something empty.

    Raises:
        Unusable: it leads to something, which is the reason.
    """
    told = value_at("error", path, answer)
    if told not in (None, False, "", [], {}):
        text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
        raise Unusable(f"the server says: {shortened(text)}")


def hit_at(paths: Mapping[str, str], row: Json, rank: int) -> Hit:
    """Return a hit.

    Args:
        paths: field of a hit -> its path from ``row``, with ``id``, ``text`` or a span.
        row: one element of the list of hits.
        rank: of the hit, for the message.

    Raises:
        Unusable: a path leads nowhere, or to a value of another kind.
    """
    values = {name: value_at(name, path, row, f"hit {rank}: ") for name, path in paths.items()}
    return hit_of(values, {name: f"{name}: {path}" for name, path in paths.items()}, rank)


def hit_of(found: Mapping[str, Any], names: Mapping[str, str], rank: int) -> Hit:
    """Return a hit of what was found for its fields.

    Args:
        found: field of a hit -> value; with ``id``, ``text`` or a span.
        names: field -> what it is called in a message.
        rank: of the hit, likewise.

    Raises:
        Unusable: a value is missing, or of another kind. What only narrows the search for a text
            may be missing, and so may a score.
    """
    values: dict[str, Any] = {}
    for name, value in found.items():
        if name in ("id", "document_id") and _is_whole(value):
            value = str(value)
        needed = name in ("id", "text") or ("text" not in found and name != "score")
        if value is None and not needed:
            continue
        fits, kind = _KINDS[name]
        if not fits(value):
            problem = "matches nothing" if value is None else f"is {_named(value)}"
            raise Unusable(f"hit {rank}: `{names[name]}` {problem}; it must be {kind}")
        values[name] = value
    return Hit(**values)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_offset(value: Json) -> bool:
    return _is_whole(value) and 0 <= value < 2**31


def _is_finite(value: Json) -> bool:
    is_number = _is_whole(value) or isinstance(value, float)
    return is_number and abs(value) <= 2**1000 and math.isfinite(value)


_ID = (_is_text, "a text or a whole number")
_TEXT = (_is_text, "a text")
_OFFSET = (_is_offset, "a whole number from 0")
_KINDS: Mapping[str, tuple[Callable[[Json], bool], str]] = {
    "id": _ID,
    "text": _TEXT,
    "document_id": _ID,
    "start": _OFFSET,
    "end": _OFFSET,
    "score": (_is_finite, "a finite number"),
    "source": _TEXT,
}

FIELDS = tuple(_KINDS)
"""What of a hit may have a path."""


def _named(value: Json) -> str:
    """Return what a value is, for people."""
    if isinstance(value, Mapping):
        keys = ", ".join(sorted(value)[:6])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return shortened(json.dumps(value, ensure_ascii=False, default=str), 60)
