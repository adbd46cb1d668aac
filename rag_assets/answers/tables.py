"""The tables that metrics of answers and the waterfall read and give."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.schemas import ANSWERS as STORED_ANSWERS
from rag_assets.schemas import Column, TableSchema

_EVIDENCE = pa.struct(
    [
        ("evidence_id", pa.string()),
        ("document_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)

_OF_MODELS = ("prompt_tokens", "completion_tokens", "finish_reason", "served_model")

ANSWERS = TableSchema(
    STORED_ANSWERS.name,
    STORED_ANSWERS.row,
    STORED_ANSWERS.key,
    tuple(column for column in STORED_ANSWERS.columns if column.name not in _OF_MODELS),
)
"""What a metric looks at of the stored answers."""

GOLDS = TableSchema(
    "golds",
    "what is right for one question",
    ("query_id",),
    (
        Column("query_id", pa.string(), "the question"),
        Column("answers", pa.list_(pa.string()), "any of them is right; empty: none is known"),
        Column(
            "answerable",
            pa.bool_(),
            "whether the corpus is said to hold an answer; null: no label says",
            True,
        ),
        Column(
            "evidence",
            pa.list_(_EVIDENCE),
            "places of positive grade; those with the same evidence_id are alternatives",
        ),
    ),
)

ANSWER_CONTEXTS = TableSchema(
    "answer_contexts",
    "one unit of the context that an answer was written from",
    ("query_id", "position"),
    (
        Column("query_id", pa.string(), "the question"),
        Column("position", pa.int32(), "its number in the context, from 1"),
        Column("text", pa.string(), "as it was shown"),
        Column("document_id", pa.string(), "the document that it is part of"),
        Column("start", pa.int64(), "its first character in the document's text"),
        Column("end", pa.int64(), "character after the last one"),
    ),
)

ANSWER_METRICS = TableSchema(
    "answer_metrics",
    "one question of one answerer; a float64 column for each metric",
    ("query_id",),
    (
        Column("query_id", pa.string(), "the question"),
        Column("failed", pa.bool_(), "there is no answer: every metric that is defined is 0"),
        Column(
            "answerable",
            pa.bool_(),
            "whether the corpus is said to hold an answer; null: no label says",
            True,
        ),
    ),
    open_columns=True,
)
