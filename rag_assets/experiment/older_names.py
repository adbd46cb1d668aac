"""Names of an ``experiment.yaml`` that were replaced: read for one version, with a note."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from rag_assets.errors import ConfigError
from rag_assets.experiment.yaml_file import Location, YamlFile, dotted

_log = logging.getLogger(__name__)


class Replacement(NamedTuple):
    """A key or a value that has another name now.

    Attributes:
        section: the key of the file whose blocks, by name, have it.
        type: the ``type`` of these blocks.
        key: the key, as it is called now.
        older: what was written for the key; with ``value``, for this value of it.
        value: the value, as it is called now; None where the key was renamed.
    """

    section: str
    type: str
    key: str
    older: str
    value: str | None = None


REPLACEMENTS = (Replacement("retrievers", "bm25", "engine", "bm25s", "builtin"),)
"""To be removed a version after they came."""


def with_names_of_today(yaml_file: YamlFile) -> YamlFile:
    """Return the file with replaced names in the place of older ones, on the same lines.

    A list of values, which makes a grid, stays as it is, so that members keep their names: a grid
    is expanded first, and then read again.
    """
    data, lines = dict(yaml_file.data), dict(yaml_file.lines)
    for item in REPLACEMENTS:
        for name, block in _blocks(data, item):
            at = (item.section, name)
            if item.value is None and item.older in block and item.key not in block:
                block = {item.key if key == item.older else key: block[key] for key in block}
                _note(yaml_file, (*at, item.older), f"is now called {item.key}")
                lines |= {
                    (*at, item.key, *place[3:]): line
                    for place, line in yaml_file.lines.items()
                    if place[:3] == (*at, item.older)
                }
            elif item.value is not None and block.get(item.key) == item.older:
                block = {**block, item.key: item.value}
                _note(yaml_file, (*at, item.key), f"{item.older} is now called {item.value}")
            data[item.section] = {**data[item.section], name: block}
    return yaml_file._replace(data=data, lines=lines)


def _blocks(data: Mapping[str, Any], item: Replacement) -> Iterator[tuple[str, dict[str, Any]]]:
    section = data.get(item.section)
    for name, block in section.items() if isinstance(section, dict) else ():
        if isinstance(block, dict) and block.get("type") == item.type:
            yield name, block


def _note(yaml_file: YamlFile, location: Location, change: str) -> None:
    problem = f"{change}; the older name is read in this version only"
    line = yaml_file.line_of(location)
    _warn(str(ConfigError(problem, file=yaml_file.path, line=line, key=dotted(location))))


@cache
def _warn(note: str) -> None:
    """Say it once a process: a file is read again and again."""
    _log.warning("%s", note)
