"""What of a query counts besides its text: its gold answers, and the split that it belongs to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.pipeline.stage import Input
from rag_assets.pipeline.stages.sources import QUERIES_KEY

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

ANSWER_KEYS = ("answers", "answer")
"""Keys of a query's metadata that hold its gold answers: a string, or a list of strings."""

ALL = "all"
"""The split of every query of an experiment without splits."""

_SCHEMA = pa.schema(
    [("query_id", pa.string()), ("answers", pa.list_(pa.string())), ("split", pa.string())]
)


def answers_input() -> Input:
    """Return the input that :func:`answers_of` reads."""
    return Input("answers", QUERIES_KEY)


def splits_input() -> Input:
    """Return the input of a stage that reads the splits of :func:`answers_of` only."""
    return Input("queries", QUERIES_KEY, "ids")


def answers_of(pipeline: Pipeline) -> pa.Table:
    """Return columns ``query_id``, ``answers`` (list of strings, may be empty) and ``split``."""
    return answers_table(pipeline.artifact(QUERIES_KEY).table())


def answers_table(queries: pa.Table) -> pa.Table:
    """Return the same from the table of :data:`rag_assets.schemas.QUERIES`."""
    metadata = queries["metadata"].to_pylist()
    columns = {
        "query_id": queries["query_id"],
        "answers": pa.array([_answers(text) for text in metadata], pa.list_(pa.string())),
        "split": pa.array([ALL] * queries.num_rows, pa.string()),
    }
    return pa.table(columns, schema=_SCHEMA)


def _answers(metadata: str) -> list[str]:
    fields: dict[str, Any] = json.loads(metadata) if '"answer' in metadata else {}
    for key in ANSWER_KEYS:
        value = fields.get(key)
        found = [value] if isinstance(value, str) else value
        if isinstance(found, list) and found:
            return [text for text in found if isinstance(text, str)]
    return []
