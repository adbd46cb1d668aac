from __future__ import annotations

from rag_assets.query_sets.variants import originals
from rag_assets.schemas import QUERIES


def test_every_query_is_its_only_variant() -> None:
    rows: list[dict[str, object]] = [
        {"query_id": "q2", "text": "second?", "tags": ["a"], "metadata": "{}"},
        {"query_id": "q1", "text": "", "tags": [], "metadata": "{}"},
    ]
    assert originals(QUERIES.from_rows(rows)).to_pylist() == [
        {"query_id": "q2", "variant": 0, "text": "second?"},
        {"query_id": "q1", "variant": 0, "text": ""},
    ]


def test_no_queries() -> None:
    assert originals(QUERIES.empty()).num_rows == 0
