"""Reads a YAML file and remembers on which line each key stands."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rag_assets.errors import ConfigError
from rag_assets.options import Location
from rag_assets.regular_files import regular

MAX_BYTES = 2**18
"""Most of a file; one that people write is a hundredth of it."""

MAX_NODES = 50_000
"""Most values of a file, with every alias written out: few bytes of aliases can be millions."""

MAX_LEVELS = 50
MAX_DIGITS = 40

_INTEGER = "tag:yaml.org,2002:int"
_KEY_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}


class YamlFile(NamedTuple):
    """The data of a YAML file, and the line of every key and list item."""

    path: Path
    data: dict[str, Any]
    lines: dict[Location, int]

    def line_of(self, location: Sequence[int | str]) -> int | None:
        """Return the line of the deepest known part of ``location``."""
        for length in range(len(location), 0, -1):
            line = self.lines.get(tuple(location[:length]))
            if line is not None:
                return line
        return None


def dotted(location: Location) -> str | None:
    """Return a location as one line of text (``retrievers.bm25.k1``); None for the whole file."""
    return " ".join(".".join(map(str, location)).split()) or None


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
    _Extent(path, loader).check(root)
    lines: dict[Location, int] = {}
    _index(path, root, (), lines)
    return YamlFile(path, loader.construct_document(root), lines)


class _Extent:
    """How many values a file holds, and how deep they lie, with every alias written out."""

    def __init__(self, path: Path, loader: yaml.SafeLoader) -> None:
        self._path = path
        self._loader = loader
        self._known: dict[int, tuple[int, int] | None] = {}

    def check(self, root: yaml.Node) -> None:
        """Refuse what is too much for a file that people write.

        Raises:
            ConfigError: there are too many values or levels, an anchor contains itself, or a
                number has too many digits.
        """
        self._extent(root)

    def _extent(self, node: yaml.Node) -> tuple[int, int]:
        """Return the number of values from a node on, and of their levels."""
        key = id(node)
        if key in self._known:
            extent = self._known[key]
            if extent is None:
                raise self._error(node, "an anchor contains itself")
            return extent
        self._known[key] = None
        extents = [self._extent(child) for child in _children(node)]
        values = 1 + sum(count for count, _ in extents)
        levels = 1 + max((level for _, level in extents), default=0)
        if values > MAX_NODES:
            raise self._error(
                node, f"holds more than {MAX_NODES:,} values, with aliases written out"
            )
        if levels > MAX_LEVELS:
            raise self._error(node, f"holds more than {MAX_LEVELS} levels")
        if isinstance(node, yaml.ScalarNode) and node.tag == _INTEGER:
            self._check_number(node)
        self._known[key] = values, levels
        return values, levels

    def _check_number(self, node: yaml.ScalarNode) -> None:
        if len(node.value) > MAX_DIGITS:
            raise self._error(node, f"holds a number of {len(node.value):,} digits")
        if abs(self._loader.construct_yaml_int(node)) >= 2**63:
            problem = f"holds the number {node.value}, which does not fit 64 bits"
            raise self._error(node, problem)

    def _error(self, node: yaml.Node, problem: str) -> ConfigError:
        return ConfigError(problem, file=self._path, line=node.start_mark.line + 1)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _index(path: Path, node: yaml.Node, at: Location, lines: dict[Location, int]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            lines[(*at, number)] = item.start_mark.line + 1
            _index(path, item, (*at, number), lines)
    elif isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = _key(path, key_node)
            line = key_node.start_mark.line + 1
            if (*at, key) in lines:
                first = lines[(*at, key)]
                problem = f"stands twice, first on line {first}"
                raise ConfigError(problem, file=path, line=line, key=dotted((*at, key)))
            lines[(*at, key)] = line
            _index(path, value_node, (*at, key), lines)


def _key(path: Path, node: yaml.Node) -> str:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError("keys must be plain text", file=path, line=line)
    if node.tag not in _KEY_TAGS:
        kind = node.tag.rpartition(":")[2]
        problem = f"the key {node.value} is read as {kind}; put it in quotes to make it a name"
        raise ConfigError(problem, file=path, line=line)
    return str(node.value)
