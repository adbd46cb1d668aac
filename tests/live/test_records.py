"""Metrics of dicts, and how documents, queries and judgments given in code become rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets import metrics
from rag_assets.errors import DataError, RagAssetsError, UsageError
from rag_assets.live import Records
from rag_assets.sources.labelled_folder import JsonlDataset

GRADES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), min_size=1)
SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 4).map(float), min_size=1)
NAMES = ["ndcg_cut_3", "map", "recip_rank", "P_2", "recall_3"]


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(["1", "2"]), st.tuples(SCORES, GRADES), min_size=1))
def test_values_are_those_of_pytrec_eval(
    pairs: dict[str, tuple[dict[str, float], dict[str, int]]],
) -> None:
    run = {query: scores for query, (scores, _) in pairs.items()}
    qrels = {query: grades for query, (_, grades) in pairs.items()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {*NAMES, "ndcg_cut.3", "P.2", "recall.3"})
    values = theirs.evaluate(run)
    ours = metrics(run, qrels, NAMES, trec_mean=True)
    for row in ours.per_query:
        for name in NAMES:
            assert row[name] == pytest.approx(values[str(row["query_id"])][name]), name


def test_lists_are_rankings_and_numbers_are_ids() -> None:
    scores = metrics({1: [3, 4]}, {1: [4], "2": {3: 1}}, ["mrr", "hit_rate@1"])
    assert scores.means == {"mrr": 0.25, "hit_rate@1": 0.0}
    assert (scores.n_queries, scores.n_missing) == (2, 1)
    assert repr(scores).startswith("Scores(means={'mrr': 0.25, 'hit_rate@1': 0.0}, n_queries=2")


WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "a run": (
        ([], {"q": ["d"]}, ["mrr"]),
        "run is list []; expected a dict of query id to a dict of document id to scores",
    ),
    "a score": (
        ({"q": {"d": "x"}}, {"q": ["d"]}, ["mrr"]),
        "run['q']['d'] is 'x'; a score is a finite number",
    ),
    "twice": (({"q": ["d", "d"]}, {"q": ["d"]}, ["mrr"]), "run['q'] holds 'd' twice"),
    "a grade": (
        ({}, {"q": {"d": 0.5}}, ["mrr"]),
        "qrels['q']['d'] is 0.5; a grade is a whole number",
    ),
    "a large grade": (
        ({}, {"q": {"d": 2**31}}, ["mrr"]),
        "qrels['q']['d'] is 2147483648; a grade is a whole number",
    ),
    "no label": (({}, {}, ["mrr"]), "qrels holds no judgment"),
    "a metric": (({}, {"q": ["d"]}, ["mmr"]), "did you mean 'mrr'?"),
    "one metric": (({}, {"q": ["d"]}, "mrr"), "names is a text, 'mrr'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_says_what_was_given_and_what_is_expected(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises(UsageError, match=re.escape(message)):
        metrics(*given)


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


def test_relevant_ids_quotes_tags_and_what_is_forgotten(tmp_path: Path) -> None:
    *_, qrels = tables(tmp_path, ["a ferry", "a harbour"], ["x", "y"], {0: [1], "1": {0}})
    assert [(row["query_id"], row["document_id"], row["grade"]) for row in qrels] == [
        ("0", "1", 1),
        ("1", "0", 1),
    ]
    quoted = [{"query_id": "0", "doc_id": 1, "quote": "harbour"}]
    *_, qrels = tables(tmp_path, ["a ferry", "a harbour"], ["x"], quoted)
    assert [(row["start"], row["end"]) for row in qrels] == [(2, 9)]
    frame = pd.DataFrame({"id": [7], "query": ["x"], "tags": [["a", "b"]], "team": ["sales"]})
    _, queries = tables(tmp_path, ["a"], frame, None)
    assert queries == [
        {"query_id": "7", "text": "x", "tags": ["a", "b"], "metadata": '{"team":"sales"}'}
    ]


def test_what_is_no_longer_judged_is_forgotten(tmp_path: Path) -> None:
    assert len(tables(tmp_path, ["a"], ["x"], {0: [0]})) == 3
    assert len(tables(tmp_path, ["a"], ["x"], None)) == 2


WRONG_ROWS: dict[str, tuple[tuple[Any, ...], type[RagAssetsError], str]] = {
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
    "an id that occurs twice": (
        ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], ["x"], None),
        DataError,
        "documents[1]: ",
    ),
    "a query without text": (
        (["a"], pl.DataFrame({"query_id": ["q"], "words": ["x"]}), None),
        DataError,
        "queries, row 0: `text`: is missing; found keys: 'query_id', 'words'",
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
        "judgments[0][0]: `relevance`: is 0.5; must be a grade: an integer that fits 32 bits",
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


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_an_error_names_the_place_and_what_is_expected(tmp_path: Path, case: str) -> None:
    given, kind, message = WRONG_ROWS[case]
    with pytest.raises(kind, match=re.escape(message)) as error:
        tables(tmp_path, *given)
    assert str(tmp_path) not in str(error.value)
