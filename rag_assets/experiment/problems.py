"""What pydantic found wrong in an ``experiment.yaml``, said in the words of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from rag_assets.answers.generators.registry import GENERATOR_TYPES
from rag_assets.answers.options import AnswererOptions, AnswerMetricsOptions
from rag_assets.chunking.index_texts import IndexText
from rag_assets.chunking.registry import (
    CHILD_CHUNKING_TYPES,
    CHUNKING_TYPES,
    PARENT_CHUNKING_TYPES,
)
from rag_assets.compute.options import ComputeConfig
from rag_assets.errors import allowed_names
from rag_assets.experiment.config import (
    ChecksConfig,
    ContextConfig,
    DatasetConfig,
    DriftConfig,
    ExperimentConfig,
    MeasurementsConfig,
    SplitConfig,
    StatisticsConfig,
)
from rag_assets.experiment.llm import LlmConfig
from rag_assets.experiment.names import FOR_PEOPLE, NAME_RULE
from rag_assets.experiment.schedule import ScheduleConfig
from rag_assets.judges.registry import JUDGE_TYPES
from rag_assets.labels.generation.question_options import QuestionOptions
from rag_assets.options import KeyProblem, Location
from rag_assets.query_sets.registry import QUERY_SET_TYPES
from rag_assets.retrieval.derived import Tune
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from rag_assets.retrieval.retriever import Rm3Expansion, WindowExpansion

LONGEST = 80
"""Characters of a wrong value that are shown."""

_TYPES: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "retrievers": RETRIEVER_TYPES,
    "chunking": CHUNKING_TYPES,
    "query_sets": QUERY_SET_TYPES,
    "generators": GENERATOR_TYPES,
    "judges": JUDGE_TYPES,
}
_INNER_TYPES = {"child": CHILD_CHUNKING_TYPES, "parent": PARENT_CHUNKING_TYPES}
_EXPANSION_TYPES: Mapping[str, type[BaseModel]] = {"window": WindowExpansion, "rm3": Rm3Expansion}

_SECTIONS: Mapping[str, type[BaseModel]] = {
    "dataset": DatasetConfig,
    "questions": QuestionOptions,
    "split": SplitConfig,
    "statistics": StatisticsConfig,
    "answer_metrics": AnswerMetricsOptions,
    "llm": LlmConfig,
    "context": ContextConfig,
    "measurements": MeasurementsConfig,
    "schedule": ScheduleConfig,
    "compute": ComputeConfig,
    "checks": ChecksConfig,
}

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
    if location[:1] in {(section,) for section in _TYPES}:
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
    return f"; found {text if len(text) <= LONGEST else text[:LONGEST] + '...'}"


def _discriminator(error: Mapping[str, Any]) -> str:
    return str(error["ctx"]["discriminator"]).strip("'")


def _types_at(location: Location) -> Mapping[str, type[BaseModel]]:
    """Return the types, by name, of which the value at a pydantic location must be one."""
    match location:
        case ("chunking", _, "parent", ("child" | "parent") as part, *_):
            return _INNER_TYPES[str(part)]
        case ("retrievers", _, _, "expand", *_):
            return _EXPANSION_TYPES
        case _:
            return _TYPES[str(location[0])]


def _keys_at(location: Location) -> list[str]:
    match location:
        case ("checks", "drift"):
            return _keys_of(DriftConfig)
        case ("chunking", _, "parent", "child" | "parent", tag) | (
            "retrievers",
            _,
            _,
            "expand",
            tag,
        ):
            return _keys_of(_types_at(location)[str(tag)])
        case ("retrievers", _, _, "tune"):
            return _keys_of(Tune)
        case ("chunking", _, _, "index_texts", _):
            return _keys_of(IndexText)
        case ("answers", _):
            return _keys_of(AnswererOptions)
        case (
            ("retrievers" | "chunking" | "query_sets" | "generators" | "judges") as section,
            _,
            tag,
        ):
            return _keys_of(_TYPES[str(section)][str(tag)])
        case (("retrievers") as section, _, tag, str() as key):
            return _keys_of(_block(_TYPES[section][str(tag)], key))
        case (str() as section,) if section in _SECTIONS:
            return _keys_of(_SECTIONS[section])
        case _:
            return _keys_of(ExperimentConfig)


def _block(options: type[BaseModel], key: str) -> type[BaseModel]:
    """Return the type of the block below a key, such as ``hnsw``."""
    annotation = options.model_fields[key].annotation
    blocks = (annotation, *get_args(annotation))
    return next(
        block for block in blocks if isinstance(block, type) and issubclass(block, BaseModel)
    )


def _keys_of(options: type[BaseModel]) -> list[str]:
    """Return the keys of a block as they are written: ``lambda`` is a word of Python's."""
    return [field.alias or name for name, field in options.model_fields.items()]
