"""Reads a YAML file and remembers on which line each key stands."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from rag_assets.errors import ConfigError, allowed_names
from rag_assets.input_files import regular
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
    elsewhere = {location for location, _ in located} - {first[:n] for n in range(len(first) + 1)}
    return first, f"{text} (and {len(elsewhere)} more)" if elsewhere else text


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


MAX_BYTES = 2**18
"""Most of a file; one that people write is a hundredth of it."""

MAX_NODES = 50_000
"""Most values of a file, with every alias written out: few bytes of aliases can be millions."""

MAX_LEVELS = 50
MAX_DIGITS = 20

_INTEGER = "tag:yaml.org,2002:int"
_KEY_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}


class YamlFile(NamedTuple):
    """The data of a YAML file, and the line of every key and list item."""

    path: Path
    data: dict[str, Any]
    lines: dict[Location, int]

    def line_of(self, location: Location) -> int | None:
        """Return the line of the deepest known part of ``location``."""
        parts = (location[:length] for length in range(len(location), 0, -1))
        return next((self.lines[part] for part in parts if part in self.lines), None)

    def error(self, location: Location, problem: str) -> ConfigError:
        """Return the error for a problem at a location."""
        line = self.line_of(location)
        return ConfigError(problem, file=self.path, line=line, key=dotted(location))


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file whose top level is a mapping.

    Raises:
        ConfigError: unreadable, too large, not YAML, not a mapping, or a key occurs twice.
    """
    try:
        with regular(path).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"has more than the {MAX_BYTES:,} bytes that are allowed", file=path)
        parsed = _parse(path, content.decode("utf-8-sig"))
        return parsed._replace(data=deepcopy(parsed.data))
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text ({error.reason})", file=path) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error
    except RecursionError as error:
        problem = "is not valid YAML: nested too deeply, or an anchor contains itself"
        raise ConfigError(problem, file=path) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ConfigError(f"is not valid YAML: {error.problem}", file=path, line=line) from error
    except (yaml.YAMLError, ValueError) as error:
        # A plain ValueError is a value that looks like a date and is none.
        raise ConfigError(f"is not valid YAML: {error}", file=path) from error


@lru_cache(maxsize=32)
def _parse(path: Path, text: str) -> YamlFile:
    """Parse a text; a process reads the same few files again and again, and parsing is slow."""
    loader = yaml.SafeLoader(text)
    root = loader.get_single_node()
    if root is None or root.tag == "tag:yaml.org,2002:null":
        return YamlFile(path, {}, {})
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError("must be a mapping of keys to values", file=path, line=1)
    lines: dict[Location, int] = {}
    _index(path, root, (), lines, itertools.count(1))
    return YamlFile(path, loader.construct_document(root), lines)


def _index(
    path: Path, node: yaml.Node, at: Location, lines: dict[Location, int], count: Iterator[int]
) -> None:
    """Note the line of every key and item below a node, with aliases written out.

    Raises:
        ConfigError: there are more than people write, an anchor contains itself, or a key occurs
            twice.
    """
    line = node.start_mark.line + 1
    if next(count) > MAX_NODES or len(at) >= MAX_LEVELS:
        rule = f"more than {MAX_NODES:,} values or {MAX_LEVELS} levels, aliases written out"
        raise ConfigError(f"holds {rule}", file=path, line=lines.get(at[:1], line))
    if node.tag == _INTEGER and len(node.value) > MAX_DIGITS:
        problem = f"holds a number of {len(node.value):,} digits"
        raise ConfigError(problem, file=path, line=line)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            lines[(*at, number)] = item.start_mark.line + 1
            _index(path, item, (*at, number), lines, count)
    elif isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = _key(path, key_node)
            if (*at, key) in lines:
                first = lines[(*at, key)]
                problem = f"occurs twice, first on line {first}"
                line = key_node.start_mark.line + 1
                raise ConfigError(problem, file=path, line=line, key=dotted((*at, key)))
            lines[(*at, key)] = key_node.start_mark.line + 1
            _index(path, value_node, (*at, key), lines, count)


def _key(path: Path, node: yaml.Node) -> str:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError("keys must be plain text", file=path, line=line)
    if node.tag not in _KEY_TAGS:
        kind = node.tag.rpartition(":")[2]
        problem = f"the key {node.value} is read as {kind}; quote it to make it a name"
        raise ConfigError(problem, file=path, line=line)
    return str(node.value)
