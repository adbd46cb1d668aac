"""Grids: a list where a block takes one value stands for one block a value.

``bm25: {type: bm25, k1: [0.9, 1.2]}`` becomes ``bm25-k1-0.9`` and ``bm25-k1-1.2``; several lists
are combined, the last one running fastest. Chunkings, query sets and retrievers may be grids. A
block that names a grid is a grid itself: a retriever that searches ``parts-max_characters-50`` and
``parts-max_characters-100`` is two retrievers, ``bm25-max_characters-50`` and
``bm25-max_characters-100``. A key that takes a list by itself, such as ``inputs``, makes no grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, get_args, get_origin

from rag_assets.chunking.chunker import CHUNKING_TYPES
from rag_assets.experiment.names import name_from
from rag_assets.experiment.yaml_file import YamlFile
from rag_assets.options import Location, Options
from rag_assets.query_sets.query_set import QUERY_SET_TYPES
from rag_assets.retrieval.base import SECTION_OF, BaseRetriever
from rag_assets.retrieval.external.base import ExternalRetriever
from rag_assets.retrieval.registry import RETRIEVER_TYPES

MAX_MEMBERS = 64
"""Blocks that one block may stand for."""

_SECTIONS: Mapping[str, tuple[str, str, Mapping[str, type[Options]]]] = {
    "chunking": ("chunking", "strategy", CHUNKING_TYPES),
    "query_sets": ("query set", "strategy", QUERY_SET_TYPES),
    "retrievers": ("retriever", "type", RETRIEVER_TYPES),
}
"""Section -> what a block of it is, the key that says of which type it is, and the types."""

_LISTS = (list, tuple, set, frozenset, Sequence)


Choices = list[tuple[str, Any]]
"""Values of a key, each with its part of the name."""


def expand_grids(yaml_file: YamlFile) -> YamlFile:
    """Return the file with a block for every member of every grid, on the lines of the grid.

    Raises:
        ConfigError: a list is empty, or a grid has more than 64 members or two of one name.
    """
    grids = _Grids(yaml_file)
    data, lines = dict(yaml_file.data), dict(yaml_file.lines)
    for section in _SECTIONS:
        blocks = _blocks(yaml_file, section)
        expanded: dict[str, Any] = {}
        for name, block in blocks.items():
            members = grids.members(section, name) or {name: block}
            for member, of_member in members.items():
                if member in expanded or (member != name and member in blocks):
                    problem = f"grid member '{member}' has the name of another"
                    raise yaml_file.error((section, name), f"{problem} {_SECTIONS[section][0]}")
                expanded[member] = of_member
                lines |= {
                    (section, member, *place[2:]): line
                    for place, line in yaml_file.lines.items()
                    if place[:2] == (section, name)
                }
        if blocks:
            data[section] = expanded
    return yaml_file._replace(data=data, lines=lines)


def _blocks(yaml_file: YamlFile, section: str) -> dict[str, Any]:
    blocks = yaml_file.data.get(section)
    return blocks if isinstance(blocks, dict) else {}


class _Grids:
    """The grids of a file; each is expanded when it is first asked for."""

    def __init__(self, yaml_file: YamlFile) -> None:
        self._file = yaml_file
        self._members: dict[Location, dict[str, Any]] = {}

    def members(self, section: str, name: str) -> dict[str, Any]:
        """Return the blocks that a block stands for, in order; none where it is no grid."""
        place = (section, name)
        if place not in self._members:
            self._members[place] = {}  # retrievers that read each other are told of later
            self._members[place] = self._expanded(section, name)
        return self._members[place]

    def _expanded(self, section: str, name: str) -> dict[str, Any]:
        _, tag, types = _SECTIONS[section]
        block = _blocks(self._file, section).get(name)
        kind = types.get(str(block.get(tag))) if isinstance(block, dict) else None
        if kind is None or not isinstance(block, dict):
            return {}
        single = {
            field.alias or key
            for key, field in kind.model_fields.items()
            if not _takes_list(field.annotation)
        }
        choices = {
            key: chosen
            for key, value in self._with_chunking(kind, block).items()
            if key in single and (chosen := self._choices((section, name, key), value))
        }
        return self._combined(section, name, block, choices) if choices else {}

    def _with_chunking(self, kind: type[Options], block: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the block with the chunking that it has where there is one grid alone."""
        searches = issubclass(kind, BaseRetriever) and not issubclass(kind, ExternalRetriever)
        chunkings = _blocks(self._file, "chunking")
        if searches and len(chunkings) == 1 and block.get("chunking") is None:
            return {**block, "chunking": next(iter(chunkings))}
        return block

    def _choices(self, location: Location, value: object) -> Choices:
        """Return what a key is in the members; nothing where it is the same in all."""
        if not isinstance(value, list):
            names = self._names(location, value)
            return [(name.removeprefix(f"{value}-"), name) for name in names]
        if not value:
            raise self._file.error(location, "needs a value, or a list of values")
        return [
            (f"{location[-1]}-{name_from(str(each))}", each)
            for listed in value
            for each in self._names(location, listed) or [listed]
        ]

    def _names(self, location: Location, value: object) -> list[str]:
        """Return the members of the grid that a value names."""
        section = SECTION_OF.get(str(location[-1])) if location[0] == "retrievers" else None
        if section is None or not isinstance(value, str):
            return []
        return list(self.members(section, value))

    def _combined(
        self, section: str, name: str, block: Mapping[str, Any], choices: Mapping[str, Choices]
    ) -> dict[str, Any]:
        size = prod(map(len, choices.values()))
        if size > MAX_MEMBERS:
            factors = " x ".join(f"{len(chosen)} of {key}" for key, chosen in choices.items())
            problem = f"is a grid of {size} {_SECTIONS[section][0]}s ({factors})"
            raise self._file.error((section, name), f"{problem}; allowed: at most {MAX_MEMBERS}")
        members: dict[str, Any] = {}
        for combination in product(*choices.values()):
            labels, values = zip(*combination, strict=True)
            full_name = "-".join([name, *labels])
            if full_name in members:
                problem = f"two members of this grid are '{full_name}'; give every value only once"
                raise self._file.error((section, name), problem)
            members[full_name] = {**block, **dict(zip(choices, values, strict=True))}
        return members


def _takes_list(annotation: object) -> bool:
    origin = get_origin(annotation)
    if annotation in _LISTS or origin in _LISTS:
        return True
    return any(_takes_list(part) for part in get_args(annotation))
