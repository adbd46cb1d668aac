"""What of a query counts besides its text, and which documents it may find."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts import filter_table, filters_by_hand, without_documents
from rag_assets.evaluation.query_facts_stage import (
    answers_of,
    cut_clusters,
    document_clusters,
    field_clusters,
    field_splits,
    field_weights,
    hashed_splits,
)
from rag_assets.schemas import DOCUMENTS, QUERIES
from tests.labels.health.tables import qrels

IDS = st.lists(st.text(min_size=1, max_size=6), min_size=40, max_size=80, unique=True)


def metadata(*fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"q{number}": one for number, one in enumerate(fields, 1)}


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({}, []),
        ({"answer": "ten"}, ["ten"]),
        ({"answers": ["ten", "10", "ten"]}, ["ten", "10"]),
        ({"answers": ["ten"], "answer": "no"}, ["ten"]),
        ({"answer": 42}, ["42"]),
        ({"answer": [2.5, "x"]}, ["2.5", "x"]),
        ({"answer": "  "}, []),
        ({"answer": True}, None),
        ({"answers": [{"text": "ten"}]}, None),
    ],
)
def test_answers(fields: dict[str, Any], answers: list[str] | None) -> None:
    assert answers_of(fields) == answers


def test_weights_are_positive_numbers_also_as_text() -> None:
    found = field_weights(metadata({"n": 2}, {"n": "0.5"}, {"n": " 3e2 "}), "n", DataError)
    assert found == {"q1": 2.0, "q2": 0.5, "q3": 300.0}


@pytest.mark.parametrize(
    "value", [0, -1, "-1", "many", True, [1], 2**53 + 2, 10**400, "1e999", float("inf"), ""]
)
def test_what_is_no_weight_names_the_query(value: object) -> None:
    with pytest.raises(DataError, match=r"^query 'q2' has 'n': .*; must be a positive number"):
        field_weights(metadata({"n": 1}, {"n": value}, {"n": 1}), "n", DataError)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), max_size=20))
def test_clusters_are_connected_components(pairs: list[tuple[str, str]]) -> None:
    """Against a search over the graph, which is another algorithm."""
    edges = {(query, document) for query, document in pairs}
    found = document_clusters(qrels(*((q, d, d, None, 1) for q, d in sorted(edges))))
    for query in {q for q, _ in edges}:
        queries, documents = {query}, set[str]()
        for _ in range(12):
            documents |= {d for q, d in edges if q in queries}
            queries |= {q for q, d in edges if d in documents}
        assert {q for q, cluster in found.items() if cluster == found[query]} == queries
        assert found[query] == f"document:{min(documents)}"


def test_clusters_by_a_field() -> None:
    fields = metadata({"page": "a"}, {"page": "a"}, {"page": 7}, {}, {"page": None})
    found = field_clusters(fields, "page", DataError)
    assert found == {"q1": "query.page:a", "q2": "query.page:a", "q3": "query.page:7"}
    with pytest.raises(DataError, match=r"^no query has the field 'pgae'; found: page$"):
        field_clusters(fields, "pgae", DataError)


@given(IDS, st.integers(0, 2**63 - 1), st.text(min_size=1))
def test_a_query_that_is_added_or_goes_moves_no_other(ids: list[str], seed: int, new: str) -> None:
    def splits(query_ids: list[str]) -> dict[str, str]:
        return hashed_splits({q: q for q in query_ids}, 0.5, seed, DataError)

    before, more, fewer = splits(ids), splits([*ids, new]), splits(ids[1:])
    assert {q: more[q] for q in ids} == before
    assert fewer == {q: before[q] for q in ids[1:]}


def test_the_split_of_a_query_is_the_same_for_ever() -> None:
    """SHA-256 of '7:q1' begins with c2, of '7:q2' with 68: 0xc2 / 256 = 0.76 and 0.41."""
    splits = hashed_splits({q: q for q in ("q1", "q2", "q3", "q4")}, 0.5, 7, DataError)
    assert splits == {"q1": "test", "q2": "dev", "q3": "dev", "q4": "test"}


def test_an_empty_side_is_refused_in_words() -> None:
    problem = "no query is in test: dev: 0.99 and seed: 0 put all 2 queries into the other split; "
    with pytest.raises(DataError, match=f"^{problem}choose another share or seed$"):
        hashed_splits({"a": "a", "b": "b"}, 0.99, 0, DataError)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["dev", "tset", "train"], "query 'q2' has 'fold': 'tset'; must be dev or test"),
        (["dev", None, "test"], "query 'q2' has no field 'fold'; must be dev or test"),
        ([["dev"], "test"], "query 'q1' has 'fold': ['dev']; must be dev or test"),
        (["dev", "dev"], "no query is in test: all 2 have the other value of 'fold'"),
    ],
)
def test_what_a_field_may_say(values: list[object], problem: str) -> None:
    with pytest.raises(DataError) as caught:
        field_splits(metadata(*({"fold": value} for value in values)), "fold", DataError)
    assert str(caught.value).startswith(problem)


def test_a_split_by_a_field_may_cut_a_cluster() -> None:
    splits = field_splits(metadata({"f": "dev"}, {"f": "test"}, {"f": "test"}), "f", DataError)
    assert splits == {"q1": "dev", "q2": "test", "q3": "test"}
    assert cut_clusters({"q1": "x", "q2": "x", "q3": "y"}, splits) == ["x"]


METADATA: dict[str, dict[str, Any]] = {
    "a": {"year": 2024, "lang": "en", "tags": ["x", "y"]},
    "b": {"year": "2024", "lang": "cs", "public": True},
    "c": {"year": 2023.0, "lang": "en", "nested": {"k": 1}, "none": None},
}


DOCUMENT_TABLE = DOCUMENTS.from_rows(
    [
        {"document_id": name, "title": "", "text": "t", "metadata": json.dumps(fields)}
        for name, fields in METADATA.items()
    ]
)


def queries(**filters: object) -> pa.Table:
    fields = {name: {} if value is ... else {"filter": value} for name, value in filters.items()}
    rest: dict[str, object] = {"text": "t", "tags": []}
    return QUERIES.from_rows(
        [{"query_id": name, "metadata": json.dumps(one), **rest} for name, one in fields.items()]
    )


def query_filters(asked: pa.Table) -> pa.Table:
    return filter_table("", filters_by_hand(asked, DataError), DOCUMENT_TABLE, DataError)


def found(value: object) -> list[str] | None:
    rows = query_filters(queries(q=value)).to_pylist()
    return rows[0]["document_ids"] if rows else None


@pytest.mark.parametrize(
    ("value", "matching"),
    [
        ({"year": 2024}, ["a", "b"]),
        ({"year": 2023}, ["c"]),
        ({"year": [2023, 2024], "lang": "en"}, ["a", "c"]),
        ({"tags": ["q", "x"]}, ["a"]),
        ({"public": True}, ["b"]),
        ({"nested": "k"}, []),
        ('{"lang": ["cs"]}', ["b"]),
        ({}, None),
        (None, None),
        (..., None),
    ],
)
def test_matching(value: object, matching: list[str] | None) -> None:
    assert found(value) == matching


def test_equal_filters_are_one() -> None:
    asked = queries(q={"lang": ["en", "cs"]}, p={"lang": ["cs", "en", "en"]}, r={"year": 1})
    table = query_filters(asked)
    assert table.drop_columns("query_set").to_pylist() == [
        {"filter": '{"lang":["cs","en"]}', "query_ids": ["p", "q"], "document_ids": list("abc")},
        {"filter": '{"year":["1"]}', "query_ids": ["r"], "document_ids": []},
    ]
    assert without_documents(table) == ["r"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"yaer": 1}, r"query 'q': no document has the field 'yaer' \(did you mean 'year'\?\);"),
        ("x" * 59, 'has "x{59}\\.\\.\\.; must be'),
        ([1], r"query 'q' has \[1\]; must be an object \{field: value\}"),
        ("lang: en", "query 'q' has \"lang: en\"; must be an object"),
        ({"year": []}, r"query 'q' has \[\] under 'year'; must be a text"),
        ({"year": None}, "has null under 'year'"),
        ({"year": {"min": 1}}, "under 'year'; must be a text, a number, true or false"),
    ],
)
def test_wrong_filters(value: object, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        found(value)
