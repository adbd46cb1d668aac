"""``query_log.jsonl`` or ``.csv``: what was asked, and how often.

Fields of a row: ``text`` (or ``query``), and if wanted ``count`` (how often it was asked, 1 when
absent), ``query_id`` and ``tags``; all others are metadata. Texts that are equal but for blanks
around them are one query: its counts are summed into ``count`` of its metadata, and its other
fields are those of its first row. Its id is its ``query_id`` where a row has one, else the first 12
hexadecimal digits of the SHA-256 of its text, so that a log written anew gives the same ids.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    Place,
    Row,
    identifier,
    metadata_json,
    optional_tags,
    shown,
    string,
)
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.problems import record_id, skipping_bad_rows
from rag_assets.sources.rows import QueryRows
from rag_assets.store.canonical import canonical_json

COUNT = "count"
MAX_COUNT = 2**53
"""Up to here every count is a float of its own."""

ID_DIGITS = 12

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


@dataclass
class _LoggedQuery:
    """One text: where it stood first, how often it was asked, and its other fields."""

    place: Place
    tags: list[str]
    metadata: str
    count: int = 0
    query_id: str | None = None
    named: Place = field(default_factory=lambda: Place(Path()))


def read_query_log(file: Path, rows: Iterable[tuple[Place, Row]], names: tuple[str, str]) -> Read:
    """Return the queries of a log, in the order in which they were first asked.

    Args:
        file: for errors.
        rows: place and fields of each row.
        names: the fields of the id and of the text.

    Raises:
        DataError: a count is no positive integer, a text has two ids, or an id two texts.
    """
    by_text: dict[str, _LoggedQuery] = {}
    for place, row in rows:
        with skipping_bad_rows():
            _add(by_text, row, place, names)
    queries, ids = QueryRows(), UniqueIds("query")
    for text, query in by_text.items():
        with skipping_bad_rows():
            query_id = query.query_id or hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]
            ids.add(query_id, query.named if query.query_id else query.place, "query_id")
            fields: dict[str, Any] = json.loads(query.metadata)
            metadata = canonical_json({**fields, COUNT: query.count})
            queries.add(query_id, text, query.tags, metadata)
    return queries.read(Place(file), [])


def _add(queries: dict[str, _LoggedQuery], row: Row, place: Place, names: tuple[str, str]) -> None:
    text = string(row, names[1], place).strip()
    query_id = identifier(row, names[0], place) if row.get(names[0]) not in (None, "") else None
    if query_id is not None:
        record_id("query", query_id)
    count = _count(row, place)
    tags = optional_tags(row, "tags", place)
    query = queries.get(text)
    if query is None:
        used = frozenset({*names, "tags", COUNT})
        query = queries[text] = _LoggedQuery(place, tags, metadata_json(row, used))
    if query_id is not None and query.query_id not in (None, query_id):
        problem = (
            f"the text has the id {shown(query_id)} here, and {shown(str(query.query_id))} on "
        )
        raise place.error(f"{problem}line {query.named.line}", names[0])
    if query_id is not None and query.query_id is None:
        query.query_id, query.named = query_id, place
    query.count += count
    if query.count > MAX_COUNT:
        raise place.error("the counts of the text exceed 2^53", COUNT)


def _count(row: Row, place: Place) -> int:
    count = row.get(COUNT)
    if isinstance(count, str) and _INTEGER.fullmatch(count.strip()):
        count = int(count)
    if count is None:
        return 1
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_COUNT:
        text = shown(json.dumps(count, ensure_ascii=False))[1:-1]
        raise place.error(f"is {text}; must be an integer from 1 to 2^53", COUNT)
    return count
