"""The queries of a folder: ``queries.jsonl`` or ``.csv``.

Fields of a query: ``query_id``, ``text``, and if wanted ``tags`` (in CSV separated by commas); all
others are metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    Place,
    Row,
    identifier,
    metadata_json,
    optional_tags,
    string,
)
from rag_assets.sources.problems import Problems
from rag_assets.sources.row_files import RowFile
from rag_assets.sources.tables import QueryRows, UniqueIds
from rag_assets.text_files import suffix

QUERIES = "queries"
QUERIES_FILE = f"{QUERIES}.jsonl"

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
        file: JSON lines or CSV.
        names_of: gives the names of the fields, for the first row.
        problems: what to do with a bad row.
    """
    rows, ids = QueryRows(), UniqueIds("query", problems)
    names: Names | None = None
    for place, row in RowFile(file, problems).rows():
        names = names or names_of(row, place)
        with problems:
            query_id = identifier(row, names[0], place)
            ids.add(query_id, place, "query_id")
            if suffix(file) == ".csv" and "tags" in row:
                tags = (
                    [tag.strip() for tag in row["tags"].split(",")] if row["tags"].strip() else []
                )
                row = {**row, "tags": tags}
            tags = optional_tags(row, "tags", place)
            rest = metadata_json(row, frozenset({*names, "tags"}))
            text = string(row, names[1], place)
            if text in _EXAMPLE_TEXTS:
                problem = "is still the example that `rag-assets init` wrote; put your own "
                raise place.error(f"{problem}question in its place, or delete the line", names[1])
            rows.add(query_id, text, tags, rest)
    return rows.read(Place(file), [])
