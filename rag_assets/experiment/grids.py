"""Grids: a list where a retriever takes one value stands for one retriever a value.

``bm25: {type: bm25, k1: [0.9, 1.2]}`` becomes ``bm25-k1-0.9`` and ``bm25-k1-1.2``; several lists
are combined, the last one running fastest. A key that takes a list by itself, such as ``inputs``,
is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, get_args, get_origin

from rag_assets.experiment.names import name_from
from rag_assets.experiment.yaml_file import YamlFile
from rag_assets.options import Location
from rag_assets.retrieval.registry import RETRIEVER_TYPES

MAX_MEMBERS = 64
"""Retrievers that one block may stand for."""

SECTION = "retrievers"
_LISTS = (list, tuple, set, frozenset, Sequence)


class _Member(NamedTuple):
    """One retriever of a grid: its name, its block, and which item of each list it took."""

    name: str
    block: dict[str, Any]
    chosen: Mapping[str, int]


def expand_grids(yaml_file: YamlFile) -> YamlFile:
    """Return the file with a block for every member of every grid, on the lines of its own.

    Raises:
        ConfigError: a list is empty, or a grid has more than 64 members or two of one name.
    """
    blocks = yaml_file.data.get(SECTION)
    if not isinstance(blocks, dict):
        return yaml_file
    grids = {name: keys for name, block in blocks.items() if (keys := _lists_of(block))}
    if not grids:
        return yaml_file
    expanded: dict[str, Any] = {}
    lines = dict(yaml_file.lines)
    for name, block in blocks.items():
        if name not in grids:
            expanded[name] = block
            continue
        for member in _members(yaml_file, name, block, grids[name]):
            if member.name in expanded or member.name in blocks:
                problem = f"grid member '{member.name}' has the name of another retriever"
                raise yaml_file.error((SECTION, name), problem)
            expanded[member.name] = member.block
            lines |= _lines_of(yaml_file.lines, name, member)
    return yaml_file._replace(data={**yaml_file.data, SECTION: expanded}, lines=lines)


def _lists_of(block: object) -> list[str]:
    """Return the keys of a block that hold a list where their type takes one value."""
    kind = RETRIEVER_TYPES.get(str(block.get("type"))) if isinstance(block, dict) else None
    if kind is None or not isinstance(block, dict):
        return []
    fields = kind.model_fields
    return [
        key
        for key, value in block.items()
        if isinstance(value, list) and key in fields and not _takes_list(fields[key].annotation)
    ]


def _takes_list(annotation: object) -> bool:
    origin = get_origin(annotation)
    if annotation in _LISTS or origin in _LISTS:
        return True
    return any(_takes_list(part) for part in get_args(annotation))


def _members(
    yaml_file: YamlFile, name: str, block: Mapping[str, Any], keys: Sequence[str]
) -> list[_Member]:
    for key in keys:
        if not block[key]:
            raise yaml_file.error((SECTION, name, key), "needs a value, or a list of values")
    size = prod(len(block[key]) for key in keys)
    if size > MAX_MEMBERS:
        factors = " x ".join(f"{len(block[key])} of {key}" for key in keys)
        problem = f"is a grid of {size} retrievers ({factors}); allowed: at most {MAX_MEMBERS}"
        raise yaml_file.error((SECTION, name), problem)
    members: dict[str, _Member] = {}
    for numbers in product(*(range(len(block[key])) for key in keys)):
        chosen = dict(zip(keys, numbers, strict=True))
        values = {key: block[key][number] for key, number in chosen.items()}
        full_name = "-".join(
            [name, *(f"{key}-{name_from(str(value))}" for key, value in values.items())]
        )
        if full_name in members:
            problem = f"two members of this grid are '{full_name}'; every value stands once"
            raise yaml_file.error((SECTION, name), problem)
        members[full_name] = _Member(full_name, {**block, **values}, chosen)
    return list(members.values())


def _lines_of(lines: Mapping[Location, int], name: str, member: _Member) -> dict[Location, int]:
    """Return the lines of a member: those of its block, and for a value that of the list's item."""
    member_lines: dict[Location, int] = {}
    for location, line in lines.items():
        if location[:2] != (SECTION, name):
            continue
        inner = location[2:]
        if inner and inner[0] in member.chosen:
            if inner[1:2] != (member.chosen[str(inner[0])],):
                continue
            inner = (inner[0], *inner[2:])
        member_lines[(SECTION, member.name, *inner)] = line
    return member_lines
