"""What differs between two evaluations, as far as their rows of the history tell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rag_assets.pipeline.reasons import Reason, changes

DIGESTS = {
    "corpus_digest": "documents changed",
    "queries_digest": "queries changed",
    "qrels_digest": "labels changed",
}
"""Column of the history -> what is said where two evaluations differ in it."""

_NAMED = {"retrievers": "retriever", "chunking": "chunking", "query_sets": "query set"}
"""Parts of a configuration that are named by people; one that is new is one reason."""

_JSON = {"configuration": "", "code_versions": "rag_assets.", "packages": ""}
"""Columns that hold JSON -> what stands before the name of what differs."""


def evaluation_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Reason]:
    """Return the reasons why two evaluations may differ: what a person changed, not what follows.

    Args:
        old: row of :data:`rag_assets.schemas.HISTORY`.
        new: another one.
    """
    found = [
        Reason(text)
        for column, text in DIGESTS.items()
        if None not in (old[column], new[column]) and old[column] != new[column]
    ]
    for column, before in _JSON.items():
        if old[column] != new[column]:
            was, now = json.loads(old[column]), json.loads(new[column])
            # An evaluation of an older version of the program did not keep them.
            if was and now:
                found += _json_changes(before, was, now)
    return found


def _json_changes(before: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[Reason]:
    for part, noun in _NAMED.items():
        old, new = was.get(part), now.get(part)
        if not isinstance(old, dict) or not isinstance(new, dict):
            continue
        for name in [name for name in new if name not in old]:
            yield Reason(f"{noun} {name} added")
        for name in [name for name in old if name not in new]:
            yield Reason(f"{noun} {name} removed")
        shared = old.keys() & new.keys()
        was = {**was, part: {name: old[name] for name in old if name in shared}}
        now = {**now, part: {name: new[name] for name in new if name in shared}}
    for change in changes(was, now):
        yield Reason(f"{before}{change.what.removeprefix('retrievers.')}", change.old, change.new)
