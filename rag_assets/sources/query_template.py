"""The examples that ``rag-assets init`` writes where there are no questions: never read as such."""

from __future__ import annotations

import json
from pathlib import Path

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

_TEXTS = frozenset(example["text"] for example in _EXAMPLES)

N_EXAMPLES = len(_EXAMPLES)

QUERIES_FILE = "queries.jsonl"
"""Where they are written, beside the documents: nothing reads questions elsewhere."""


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


def example_problem(text: str) -> str | None:
    """Return why a query is none where it is still an example; None for every other text."""
    if text not in _TEXTS:
        return None
    return (
        "is still the example that `rag-assets init` wrote; put your own question in its place, "
        "or delete the line"
    )
