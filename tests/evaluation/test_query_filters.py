from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.query_filters import query_filters, without_documents
from rag_assets.schemas import DOCUMENTS, QUERIES

METADATA: dict[str, dict[str, Any]] = {
    "a": {"year": 2024, "lang": "en", "tags": ["x", "y"]},
    "b": {"year": "2024", "lang": "cs", "public": True},
    "c": {"year": 2023.0, "lang": "en", "nested": {"k": 1}, "none": None},
}


def documents() -> pa.Table:
    return DOCUMENTS.from_rows(
        [
            {"document_id": name, "title": "", "text": "t", "metadata": json.dumps(fields)}
            for name, fields in METADATA.items()
        ]
    )


def queries(**filters: object) -> pa.Table:
    rows: list[dict[str, object]] = [
        {
            "query_id": name,
            "text": "t",
            "tags": [],
            "metadata": json.dumps({} if value is ... else {"filter": value}),
        }
        for name, value in filters.items()
    ]
    return QUERIES.from_rows(rows)


def found(value: object) -> list[str] | None:
    rows = query_filters(queries(q=value), documents(), DataError).to_pylist()
    return rows[0]["document_ids"] if rows else None


@pytest.mark.parametrize(
    ("value", "matching"),
    [
        ({"year": 2024}, ["a", "b"]),
        ({"year": "2024"}, ["a", "b"]),
        ({"year": 2023}, ["c"]),
        ({"year": [2023, 2024], "lang": "en"}, ["a", "c"]),
        ({"tags": "y"}, ["a"]),
        ({"tags": ["q", "x"]}, ["a"]),
        ({"public": True}, ["b"]),
        ({"public": 1}, []),
        ({"lang": "EN"}, []),
        ({"nested": "k"}, []),
        ('{"lang": ["cs"]}', ["b"]),
        ({}, None),
        (None, None),
        (" ", None),
        (..., None),
    ],
)
def test_matching(value: object, matching: list[str] | None) -> None:
    assert found(value) == matching


def test_equal_filters_are_one() -> None:
    asked = queries(q={"lang": ["en", "cs"]}, p={"lang": ["cs", "en", "en"]}, r={"year": 1})
    table = query_filters(asked, documents(), DataError)
    assert table.to_pylist() == [
        {"filter": '{"lang":["cs","en"]}', "query_ids": ["p", "q"], "document_ids": list("abc")},
        {"filter": '{"year":["1"]}', "query_ids": ["r"], "document_ids": []},
    ]
    assert without_documents(table) == ["r"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"yaer": 1}, r"query 'q': no document has the field 'yaer' \(did you mean 'year'\?\);"),
        ("x" * 58, 'has "x{58}"; must be'),  # 60 characters with its quotes
        ("x" * 59, 'has "x{59}\\.\\.\\.; must be'),
        ("\u010d", 'has "\u010d"; must be'),
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
