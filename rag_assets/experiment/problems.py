"""What pydantic found wrong in an ``experiment.yaml``, said in the words of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rag_assets.errors import allowed_names
from rag_assets.experiment.config import ExperimentConfig
from rag_assets.experiment.names import FOR_PEOPLE, NAME_RULE
from rag_assets.options import KeyProblem, LazyTaggedUnion, Location

MAX_CHARACTERS = 80
"""Characters of a wrong value that are shown."""

_TAGGED = ("retrievers", "chunking", "query_sets", "generators", "judges")
"""Sections whose blocks are of one of several types."""

_WORDS = {
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}


def first_problem(
    errors: Sequence[Mapping[str, Any]], lines: Mapping[Location, int]
) -> tuple[Location, str]:
    """Return the place of the first problem, what it is, and how many other places have one.

    Args:
        errors: what pydantic lists; a value that may have two types is listed once for each.
        lines: the line of every key and list item of the file.
    """
    located = [(_in_file(error, lines), error) for error in errors]
    first = located[0][0]
    here = [_problem(error) for location, error in located if location == first]
    text = f"{' or '.join(dict.fromkeys(here))}{_found(located[0][1])}"
    if first[:1] == ("retrievers",) and len(first) == 2 and NAME_RULE in text:
        text += f"; {FOR_PEOPLE}"
    elsewhere = {location for location, _ in located} - {first[:n] for n in range(len(first) + 1)}
    return first, f"{text} (and {len(elsewhere)} more)" if elsewhere else text


def _in_file(error: Mapping[str, Any], lines: Mapping[Location, int]) -> Location:
    """Drop from a pydantic location what does not stand in the file, such as union tags."""
    location = error["loc"]
    if location and location[0] in _TAGGED:
        # The tag may be the name of a key below it: `parent`.
        location = (*location[:2], *location[3:])
    if error["type"] == "union_tag_invalid":
        location = (*location, _discriminator(error))
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, KeyProblem):
        location = (*location, *cause.location)
    place: Location = ()
    for part in location:
        if (*place, part) in lines:
            place = (*place, part)
    return place


def _problem(error: Mapping[str, Any]) -> str:
    location = error["loc"]
    match error["type"]:
        case "extra_forbidden":
            return f"unknown key {allowed_names(str(location[-1]), _keys_at(location[:-1]))}"
        case "union_tag_invalid":
            names = allowed_names(str(error["ctx"]["tag"]), _types_at(location))
            return f"unknown {_discriminator(error)} {names}"
        case "union_tag_not_found":
            names = ", ".join(_types_at(location))
            return f"needs the key '{_discriminator(error)}', one of {names}"
        case "missing":
            return f"needs the key '{location[-1]}'"
        case "too_short":
            return f"needs {error['ctx']['min_length']} or more items"
        case kind if kind in _WORDS:
            return _WORDS[kind]
        case _:
            if error["type"] == "value_error":
                return str(error["ctx"]["error"])  # our own words, whatever they begin with
            message = str(error["msg"]).removeprefix("Input ")
            return f"{message[0].lower()}{message[1:]}"


def _found(error: Mapping[str, Any]) -> str:
    """Return the value that was found, where the problem does not name it already."""
    named = {"extra_forbidden", "union_tag_invalid", "union_tag_not_found", "missing"}
    if error["type"] in named or error["type"] == "value_error":
        return ""
    text = repr(error["input"])
    return f"; found {text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + '...'}"


def _discriminator(error: Mapping[str, Any]) -> str:
    return str(error["ctx"]["discriminator"]).strip("'")


def _types_at(location: Location) -> list[str]:
    """Return the names of the types of which the value at a pydantic location must be one."""
    names: list[str] = []
    for annotation in _annotations_at(location):
        union = _one_of(annotation)
        names += _tags(annotation) if union is None else list(union.types)
    return names


def _keys_at(location: Location) -> list[str]:
    """Return the keys of the block at a pydantic location as they are written."""
    models = [block for block in _annotations_at(location) if _is_model(block)]
    fields = (models or [ExperimentConfig])[0].model_fields
    return [field.alias or name for name, field in fields.items()]  # `lambda` is Python's word


def _annotations_at(location: Location) -> list[Any]:
    """Return what the value at a pydantic location may be, by the annotations of the blocks."""
    annotations: list[Any] = [ExperimentConfig]
    for part in location:
        annotations = [inner for outer in annotations for inner in _inside(outer, part)]
    return [member for annotation in annotations for member in _members(annotation)]


def _inside(annotation: Any, part: int | str) -> Iterator[Any]:  # noqa: ANN401
    """Yield the annotations of what stands under a key, a number or the name of a type."""
    union = _one_of(annotation)
    if union is not None:
        yield from [union.types[str(part)]] if part in union.types else []
    elif _is_model(annotation):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias):
                yield field
        if part in _tags(annotation):
            yield annotation
    elif get_origin(annotation) is dict:
        yield get_args(annotation)[1]
    elif get_origin(annotation) is tuple and isinstance(part, int):
        yield get_args(annotation)[0]
    else:
        for member in _members(annotation):
            if member is not annotation:
                yield from _inside(member, part)


def _members(annotation: Any) -> list[Any]:  # noqa: ANN401
    """Return the members of a union, or what is annotated; of anything else itself."""
    if get_origin(annotation) in (Union, UnionType):
        return [inner for part in get_args(annotation) for inner in _members(part)]
    if _one_of(annotation) is not None:
        return [annotation]
    if isinstance(annotation, FieldInfo):
        return _members(annotation.annotation)
    return (
        _members(get_args(annotation)[0]) if get_origin(annotation) is Annotated else [annotation]
    )


def _one_of(annotation: Any) -> LazyTaggedUnion | None:  # noqa: ANN401
    is_field = isinstance(annotation, FieldInfo)
    metadata = annotation.metadata if is_field else getattr(annotation, "__metadata__", ())
    return next((one for one in metadata if isinstance(one, LazyTaggedUnion)), None)


def _is_model(annotation: Any) -> bool:  # noqa: ANN401
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _tags(annotation: Any) -> list[str]:  # noqa: ANN401
    """Return the words by which a block says that it is of this type."""
    if not _is_model(annotation) or "type" not in annotation.model_fields:
        return []
    return list(get_args(annotation.model_fields["type"].annotation))
