"""The tables that metrics of answers and the waterfall read and give."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.schemas import Column, TableSchema

_SPAN = pa.struct([("unit", pa.int32()), ("start", pa.int32()), ("end", pa.int32())])
_EVIDENCE = pa.struct(
    [
        ("evidence_id", pa.string()),
        ("document_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)

ANSWERS = TableSchema(
    "answers",
    "the answer to one question",
    ("query_id",),
    (
        Column("query_id", pa.string(), "the question"),
        Column("answer", pa.string(), "empty: refused; null: failed", True),
        Column("abstained", pa.bool_(), "what the generator says; null: the text tells", True),
        Column(
            "cited",
            pa.list_(pa.int32()),
            "numbers of units of the context, from 1; null: the generator cites nothing",
            True,
        ),
        Column(
            "spans",
            pa.list_(_SPAN),
            "characters [start, end) of the text of units of the context; null: it copies nothing",
            True,
        ),
        Column("score", pa.float64(), "higher: rather no answer; null: not known", True),
        Column("error", pa.string(), "why there is no answer; null: there is one", True),
    ),
)

GOLDS = TableSchema(
    "golds",
    "what is right for one question",
    ("query_id",),
    (
        Column("query_id", pa.string(), "the question"),
        Column("answers", pa.list_(pa.string()), "any of them is right; empty: none is known"),
        Column("answerable", pa.bool_(), "whether the corpus is said to hold an answer"),
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
        Column("answerable", pa.bool_(), "whether the corpus is said to hold an answer"),
    ),
    open_columns=True,
)
