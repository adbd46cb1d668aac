"""AutoRAG's ``retrieval_gt``: a list of needed pieces of evidence, each a list of alternatives."""

from __future__ import annotations

from typing import Any, NamedTuple

from rag_assets.sources.fields import Place, Row, checked_id
from rag_assets.sources.strict_json import type_name

KEY = "retrieval_gt"


class GroundTruth(NamedTuple):
    """The groups with their ids, and what was left out of them."""

    groups: list[list[str]]
    empty: bool
    repeated: bool


def ground_truth(row: Row, place: Place) -> GroundTruth:
    """Return the groups of a query, each id of a group once.

    The outer list is an AND, an inner list an OR. ``[[]]``, ``[[""]]``, ``[]`` and null mean that
    the query has no ground truth. Beside groups with ids, ``empty`` tells of groups or ids without
    content that were left out, ``repeated`` of ids that a group has twice.

    Raises:
        DataError: it is not a list of lists of ids.
    """
    if KEY not in row:
        raise place.error(f"is missing; found columns: {', '.join(row)}", KEY)
    groups: list[list[str]] = []
    empty = repeated = False
    for number, group in enumerate(_listed(row[KEY], place, KEY, "lists of ids")):
        inside = f"{KEY}[{number}]"
        listed = _listed(group, place, inside, "ids")
        found = [
            checked_id(item, place, f"{inside}[{position}]")
            for position, item in enumerate(listed)
            if item is not None and item != ""
        ]
        empty = empty or len(found) < max(len(listed), 1)
        repeated = repeated or len(set(found)) < len(found)
        if found:
            groups.append(list(dict.fromkeys(found)))
    return GroundTruth(groups, empty and bool(groups), repeated)


def _listed(value: object, place: Place, key: str, of: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise place.error(f"is {type_name(value)}; must be a list of {of}", key)
    return value
