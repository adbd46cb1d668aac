"""The queries of a folder: ``queries.jsonl`` or ``.csv``, or a log of what was asked.

Fields of a query: ``query_id``, ``text``, and if wanted ``tags`` (in CSV separated by commas); all
others are metadata.

A row of a log, ``query_log.jsonl`` or ``.csv``, may have ``count`` (how often it was asked, 1 when
absent). Texts that are equal but for blanks around them are one query: its counts are summed into
``count`` of its metadata, and its other fields are those of its first row. Its id is its
``query_id`` where a row has one, else the first 12 hexadecimal digits of the SHA-256 of its text,
so that a log written anew gives the same ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    Place,
    Row,
    declared,
    identifier,
    metadata_json,
    optional_tags,
    shown,
    string,
)
from rag_assets.sources.problems import Problems
from rag_assets.sources.row_files import RowFile, Rows
from rag_assets.sources.tables import QueryRows, UniqueIds
from rag_assets.store.canonical import canonical_json
from rag_assets.text_files import suffix

QUERIES = "queries"
QUERIES_FILE = f"{QUERIES}.jsonl"
QUERY_LOG = "query_log"

COUNT = "count"
MAX_COUNT = 2**53
"""Up to here every count is a float of its own."""

ID_DIGITS = 12

NO_QUESTIONS = (
    "there are no questions yet; `rag-assets init {path}` writes examples to replace, `rag-assets "
    'ask {path} "a question"` shows at once what is found for one, `rag-assets generate {path}` '
    "has a language model write some"
)
"""What to do next where documents are all that there is."""

_EXAMPLES: tuple[dict[str, object], ...] = (
    {"query_id": "q1", "text": "EXAMPLE: replace this line by a question as your users ask it"},
    {
        "query_id": "q2",
        "text": "EXAMPLE: one line a question; results are shown by its tags, if it has any",
        "tags": ["how-to"],
    },
    {
        "query_id": "q3",
        "text": "EXAMPLE: ten questions show something, a hundred tell close retrievers apart",
    },
)
"""What ``rag-assets init`` writes where there are no questions: never read as such."""

_EXAMPLE_TEXTS = frozenset(example["text"] for example in _EXAMPLES)

N_EXAMPLES = len(_EXAMPLES)

Names = tuple[str, str]
"""The fields of the id and of the text."""


def template_text() -> str:
    """Return the lines of a ``queries.jsonl`` to fill in."""
    return "".join(f"{json.dumps(example)}\n" for example in _EXAMPLES)


def examples_left(file: Path) -> int:
    """Return how many examples still stand in a file as they were written."""
    if not file.is_file():
        return 0
    examples = set(template_text().encode().splitlines())
    with file.open("rb") as lines:
        return sum(line.strip() in examples for line in lines)


def read_queries(file: Path, names_of: Callable[[Row, Place], Names], problems: Problems) -> Read:
    """Return the queries of a file.

    Args:
        file: its name says whether it is a log.
        names_of: gives the names of the fields, for the first row.
        problems: what to do with a bad row.

    Raises:
        DataError: a row breaks the format, or there is none.
    """
    if file.name.startswith(QUERY_LOG):
        return _read_log(file, names_of, problems)
    rows, ids = QueryRows(), UniqueIds("query", problems)
    names: Names | None = None
    for place, row in _query_rows(file, problems):
        names = names or names_of(row, place)
        with problems:
            query_id = identifier(row, names[0], place)
            ids.add(query_id, place, "query_id")
            tags = optional_tags(row, "tags", place)
            rest = metadata_json(row, frozenset({*names, "tags"}))
            text = string(row, names[1], place)
            if text in _EXAMPLE_TEXTS:
                problem = "is still the example that `rag-assets init` wrote; put your own "
                raise place.error(f"{problem}question in its place, or delete the line", names[1])
            rows.add(query_id, text, tags, rest)
    return rows.read(Place(file), [])


def _query_rows(file: Path, problems: Problems) -> Rows:
    is_csv = suffix(file) == ".csv"
    for place, row in RowFile(file, problems).rows():
        if is_csv and "tags" in row:
            tags = [tag.strip() for tag in row["tags"].split(",")] if row["tags"].strip() else []
            yield place, {**row, "tags": tags}
        else:
            yield place, row


class _Counted(msgspec.Struct):
    count: (
        Annotated[int, Meta(ge=1, le=MAX_COUNT, description="an integer from 1 to 2^53")] | None
    ) = None


@dataclass
class _LoggedQuery:
    """One text: where it, or its id, stood first, how often it was asked, and its other fields."""

    place: Place
    tags: list[str]
    metadata: str
    count: int = 0
    query_id: str | None = None


def _read_log(file: Path, names_of: Callable[[Row, Place], Names], problems: Problems) -> Read:
    """Return the queries of a log, in the order in which they were first asked."""
    by_text: dict[str, _LoggedQuery] = {}
    names: Names | None = None
    for place, row in _query_rows(file, problems):
        names = names or names_of(row, place)
        with problems:
            _add_logged(by_text, row, place, names, problems)
    queries, ids = QueryRows(), UniqueIds("query", problems)
    for text, query in by_text.items():
        with problems:
            query_id = query.query_id or hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]
            ids.add(query_id, query.place, "query_id")
            metadata = canonical_json({**json.loads(query.metadata), COUNT: query.count})
            queries.add(query_id, text, query.tags, metadata)
    return queries.read(Place(file), [])


def _add_logged(
    queries: dict[str, _LoggedQuery], row: Row, place: Place, names: Names, problems: Problems
) -> None:
    text = string(row, names[1], place).strip()
    query_id = identifier(row, names[0], place) if row.get(names[0]) not in (None, "") else None
    if query_id is not None:
        problems.record_id("query", query_id)
    cell = row.get(COUNT)
    cell = cell.strip() if isinstance(cell, str) else cell
    count = declared({COUNT: cell}, _Counted, place, is_text=True).count or 1
    tags = optional_tags(row, "tags", place)
    used = frozenset({*names, "tags", COUNT})
    query = queries.setdefault(text, _LoggedQuery(place, tags, metadata_json(row, used)))
    if query_id is not None and query.query_id not in (None, query_id):
        problem = f"the text has the id {shown(query_id)} here, and {shown(str(query.query_id))} on"
        raise place.error(f"{problem} line {query.place.line}", names[0])
    if query_id is not None and query.query_id is None:
        query.query_id, query.place = query_id, place
    query.count += count
    if query.count > MAX_COUNT:
        raise place.error("the counts of the text exceed 2^53", COUNT)
