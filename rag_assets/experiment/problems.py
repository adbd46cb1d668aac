"""What pydantic found wrong in an experiment, said in the words of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rag_assets.errors import ConfigError, allowed_names
from rag_assets.experiment.names import FOR_PEOPLE, NAME_RULE
from rag_assets.options import MUST_BE_MAPPING, KeyProblem, Location, shown_value

_WORDS = {
    "tuple_type": "must be a list",
    "dict_type": MUST_BE_MAPPING,
    "model_type": MUST_BE_MAPPING,
    "model_attributes_type": MUST_BE_MAPPING,
}
_NAMED = frozenset({"value_error", "missing", "union_tag_invalid", "union_tag_not_found"})
"""Problems whose words name the value that was found, where there is one."""


def dotted(location: Location) -> str | None:
    """Return a location as one line of text (``retrievers.bm25.k1``); None for the whole file."""
    return " ".join(".".join(map(str, location)).split()) or None


def first_problem(
    error: ValidationError, data: object, above: Location = ()
) -> tuple[Location, str]:
    """Return the place of the first problem, what it is, and how many other places have one.

    Args:
        error: what pydantic says; a value that may have two types is listed once for each.
        data: what was validated.
        above: where in ``data`` the part is that was validated.
    """
    located = [(_in_data((*above, *_location(each)), data), each) for each in error.errors()]
    first = located[0][0]
    words = dict.fromkeys(_words(each) for location, each in located if location == first)
    text = " or ".join(words)
    if located[0][1]["type"] not in _NAMED:
        text += f"; found {shown_value(located[0][1]['input'])}"
    if first[:1] == ("retrievers",) and len(first) == 2 and NAME_RULE in text:
        text += f"; {FOR_PEOPLE}"
    elsewhere = {location for location, _ in located} - {first[:n] for n in range(len(first) + 1)}
    return first, f"{text} (and {len(elsewhere)} more)" if elsewhere else text


def refused(
    error: ValidationError, data: Mapping[str, Any], above: Location = (), n_hidden: int = 0
) -> ConfigError:
    """Return the error for data in code that is not valid.

    Args:
        error: what pydantic says.
        data: what was validated, from the top of an experiment.
        above: where the part is that was validated.
        n_hidden: so many keys above it are not told.
    """
    location, text = first_problem(error, data, above)
    return ConfigError(text, key=dotted(location[n_hidden:]))


def _location(problem: Mapping[str, Any]) -> Location:
    location: Location = problem["loc"]
    context = problem.get("ctx", {})
    if problem["type"] == "union_tag_invalid":
        return (*location, context["discriminator"].strip("'"))
    cause = context.get("error")
    return (*location, *cause.location) if isinstance(cause, KeyProblem) else location


def _in_data(location: Location, data: object) -> Location:
    """Drop from a location what does not stand in the data, such as a type of a union."""
    place: Location = ()
    for part in location:
        is_item = isinstance(data, list | tuple) and isinstance(part, int) and part < len(data)
        if is_item or (isinstance(data, Mapping) and part in data):
            place, data = (*place, part), data[part]  # type: ignore[index]
    return place


def _words(problem: Mapping[str, Any]) -> str:
    context = problem.get("ctx", {})
    kind = problem["type"]
    if kind == "value_error":
        return str(context["error"])  # our own words, whatever they begin with
    if kind == "missing":
        return f"needs the key '{problem['loc'][-1]}'"
    if kind == "union_tag_invalid":
        names = re.findall("'([^']*)'", context["expected_tags"])
        key = context["discriminator"].strip("'")
        return f"unknown {key} {allowed_names(str(context['tag']), names)}"
    if kind == "union_tag_not_found":
        return f"needs the key {context['discriminator']}"
    if kind == "too_short":
        return f"needs {context['min_length']} or more items"
    message = str(problem["msg"]).removeprefix("Input ")
    return _WORDS.get(kind) or f"{message[0].lower()}{message[1:]}"
