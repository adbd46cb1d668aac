"""Reads a YAML file and remembers on which line each key stands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rag_assets.errors import ConfigError
from rag_assets.experiment.problems import dotted
from rag_assets.options import Location
from rag_assets.regular_files import regular

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
        ConfigError: unreadable, too large, not YAML, not a mapping, or a key stands twice.
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
        ConfigError: there are more than people write, an anchor contains itself, or a key stands
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
                problem = f"stands twice, first on line {first}"
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
        problem = f"the key {node.value} is read as {kind}; put it in quotes to make it a name"
        raise ConfigError(problem, file=path, line=line)
    return str(node.value)
