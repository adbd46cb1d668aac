"""What is given in code becomes rows, whatever form it has; an error names where it was given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rag_assets.errors import DataError, RagAssetsError, UsageError
from rag_assets.live.records import Records
from rag_assets.sources.record_folders import JsonlDataset

ROWS = [{"doc_id": 0, "text": "a ferry"}, {"doc_id": 1, "text": "a harbour"}]
JUDGED = [
    {"query_id": "q", "doc_id": "0", "relevance": 2},
    {"query_id": "q", "doc_id": "1", "relevance": 1},
]


def tables(folder: Path, *given: Any) -> list[list[dict[str, Any]]]:
    records = Records.of(*given)
    records.write(folder)
    dataset = JsonlDataset.open(folder)
    with records.errors():
        documents, queries = dataset.read_documents().table, dataset.read_queries().table
        found = [documents, queries]
        if dataset.has_qrels:
            found.append(dataset.read_qrels(documents, queries).table)
    return [table.to_pylist() for table in found]


DOCUMENTS: dict[str, object] = {
    "texts": ["a ferry", "a harbour"],
    "a generator": None,
    "a dict of texts": {"0": "a ferry", 1: "a harbour"},
    "a dict of dicts": {0: {"text": "a ferry"}, 1: {"text": "a harbour", "title": None}},
    "dicts": ROWS,
    "other names": [{"id": row["doc_id"], "text": row["text"]} for row in ROWS],
    "numbers of numpy": dict(zip(np.arange(2), ["a ferry", "a harbour"], strict=True)),
    "pandas": pd.DataFrame([{**ROWS[0], "title": float("nan")}, ROWS[1]]),
    "polars": pl.DataFrame(ROWS),
    "arrow": pa.Table.from_pylist(ROWS),
}


@pytest.mark.parametrize("form", DOCUMENTS)
def test_documents_of_every_form_are_the_same(tmp_path: Path, form: str) -> None:
    given = DOCUMENTS[form]
    if given is None:
        given = (text for text in ("a ferry", "a harbour"))
    documents, _ = tables(tmp_path, given, ["x"], None)
    assert [(row["document_id"], row["title"], row["text"]) for row in documents] == [
        ("0", "", "a ferry"),
        ("1", "", "a harbour"),
    ]


JUDGMENTS: dict[str, object] = {
    "grades": {"q": {"0": 2, 1: 1}},
    "grades of numpy": {"q": {"0": np.int64(2), "1": np.float64(1)}},
    "tuples": [("q", 0, 2), ("q", "1")],
    "dicts": [{"query_id": "q", "document_id": "0", "relevance": 2}, JUDGED[1]],
    "pandas": pd.DataFrame(JUDGED),
    "polars": pl.DataFrame(JUDGED),
}


@pytest.mark.parametrize("form", JUDGMENTS)
def test_judgments_of_every_form_are_the_same(tmp_path: Path, form: str) -> None:
    *_, qrels = tables(tmp_path, ["a ferry", "a harbour"], {"q": "x"}, JUDGMENTS[form])
    assert [(row["query_id"], row["document_id"], row["grade"]) for row in qrels] == [
        ("q", "0", 2),
        ("q", "1", 1),
    ]


def test_relevant_ids_have_grade_1_and_quotes_are_located(tmp_path: Path) -> None:
    *_, qrels = tables(tmp_path, ["a ferry", "a harbour"], ["x", "y"], {0: [1], "1": {0}})
    assert [(row["query_id"], row["document_id"], row["grade"]) for row in qrels] == [
        ("0", "1", 1),
        ("1", "0", 1),
    ]
    quoted = [{"query_id": "0", "doc_id": 1, "quote": "harbour"}]
    *_, qrels = tables(tmp_path, ["a ferry", "a harbour"], ["x"], quoted)
    assert [(row["start"], row["end"]) for row in qrels] == [(2, 9)]


def test_metadata_and_tags_are_kept_and_an_id_is_that_of_a_query(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [7], "query": ["x"], "tags": [["a", "b"]], "team": ["sales"]})
    _, queries = tables(tmp_path, ["a"], frame, None)
    assert queries == [
        {"query_id": "7", "text": "x", "tags": ["a", "b"], "metadata": '{"team":"sales"}'}
    ]


def test_what_is_no_longer_judged_is_forgotten(tmp_path: Path) -> None:
    assert len(tables(tmp_path, ["a"], ["x"], {0: [0]})) == 3
    assert len(tables(tmp_path, ["a"], ["x"], None)) == 2


WRONG: dict[str, tuple[tuple[Any, ...], type[RagAssetsError], str]] = {
    "a path": (("data", ["x"], None), UsageError, "documents is a string 'data'; expected a list"),
    "a path of documents": ((Path("data"), [], None), UsageError, "file is evaluate(path)"),
    "a number": ((3, ["x"], None), UsageError, "documents is an integer 3; expected a list of"),
    "a number in a list": ((["a", 3], ["x"], None), UsageError, "documents[1] is an integer 3;"),
    "a number in a dict": (({"a": 3}, ["x"], None), UsageError, "documents['a'] is an integer 3;"),
    "no text": (
        ({"a": {"body": "x"}}, ["x"], None),
        DataError,
        "documents['a']: no 'text' for text; found: 'doc_id', 'body'",
    ),
    "an id that stands twice": (
        ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], ["x"], None),
        DataError,
        "documents[1]: ",
    ),
    "a query without text": (
        (["a"], pl.DataFrame({"query_id": ["q"], "question": ["x"]}), None),
        DataError,
        "queries, row 0: `text`: is missing; found keys: 'query_id', 'question'",
    ),
    "no query": ((["a"], [], None), DataError, "queries: holds no query"),
    "an unknown document": (
        (["a"], ["x"], {0: ["b"]}),
        DataError,
        "judgments[0][0]: `doc_id`: unknown document 'b'",
    ),
    "an unknown query": (
        (["a"], ["x"], {"q7": {"0": 1}}),
        DataError,
        "judgments['q7']['0']: `query_id`: unknown query 'q7'",
    ),
    "a grade that is none": (
        (["a"], ["x"], {0: {0: 0.5}}),
        DataError,
        "judgments[0][0]: `relevance`: is 0.5; a grade must be an integer",
    ),
    "a key that is none": (
        (["a"], ["x"], [{"query_id": 0, "doc_id": 0, "grade": 1}]),
        UsageError,
        "judgments[0]: unknown key 'grade'; allowed: query_id, doc_id, quote",
    ),
    "one id for a list": ((["a"], ["x"], {0: "0"}), UsageError, "judgments[0] is a string '0';"),
    "a list of ids": ((["a"], ["x"], ["0"]), UsageError, "judgments[0] is a string '0'; expected"),
    "an object as metadata": (
        ([{"id": "a", "text": "x", "at": object()}], ["x"], None),
        UsageError,
        "documents[0]: is not what JSON can hold: found object <object",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_names_the_place_and_what_is_expected(tmp_path: Path, case: str) -> None:
    given, kind, message = WRONG[case]
    with pytest.raises(kind, match=re.escape(message)) as error:
        tables(tmp_path, *given)
    assert str(tmp_path) not in str(error.value)
