"""Reads a YAML file and remembers on which line each key stands."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rag_assets.errors import ConfigError

Location = tuple[str | int, ...]


class YamlFile(NamedTuple):
    """The data of a YAML file, and the line of every key and list item."""

    path: Path
    data: dict[str, Any]
    lines: dict[Location, int]

    def line_of(self, location: Sequence[str | int]) -> int | None:
        """Return the line of the deepest known part of ``location``."""
        for length in range(len(location), 0, -1):
            line = self.lines.get(tuple(location[:length]))
            if line is not None:
                return line
        return None


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file whose top level is a mapping.

    Raises:
        ConfigError: unreadable, not YAML, not a mapping, or a key stands twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text ({error.reason})", file=path) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ConfigError(f"is not valid YAML: {error.problem}", file=path, line=line) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"is not valid YAML: {error}", file=path) from error
    if root is None:
        return YamlFile(path, {}, {})
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError("must be a mapping of keys to values", file=path, line=1)
    lines: dict[Location, int] = {}
    _index(path, root, (), lines)
    data = yaml.safe_load(text)
    return YamlFile(path, data, lines)


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
                raise ConfigError(f"stands twice, first on line {first}", file=path, line=line,
                                  key=".".join(map(str, (*at, key))))
            lines[(*at, key)] = line
            _index(path, value_node, (*at, key), lines)


def _key(path: Path, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        line = node.start_mark.line + 1
        raise ConfigError("keys must be plain text", file=path, line=line)
    value: Hashable = node.value
    return str(value)
