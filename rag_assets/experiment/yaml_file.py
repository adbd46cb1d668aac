"""Reads a YAML file and remembers on which line each key stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rag_assets.errors import ConfigError

Location = tuple[int | str, ...]

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
        ConfigError: unreadable, not YAML, not a mapping, or a key stands twice.
    """
    try:
        return _parse(path, path.read_text(encoding="utf-8-sig"))
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


def _parse(path: Path, text: str) -> YamlFile:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None or root.tag == "tag:yaml.org,2002:null":
        return YamlFile(path, {}, {})
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError("must be a mapping of keys to values", file=path, line=1)
    lines: dict[Location, int] = {}
    _index(path, root, (), lines)
    return YamlFile(path, yaml.safe_load(text), lines)


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
