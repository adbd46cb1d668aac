from __future__ import annotations

import pyarrow as pa

from rag_assets.reporting.slices import TagSlice, by_tag
from rag_assets.schemas import QUERIES, QUERY_METRICS


def queries(tags: dict[str, list[str]]) -> pa.Table:
    return QUERIES.from_rows(
        [
            {"query_id": query, "text": "?", "tags": labels, "metadata": "{}"}
            for query, labels in tags.items()
        ]
    )


def cell(values: dict[str, float | None]) -> pa.Table:
    schema = QUERY_METRICS.arrow().append(pa.field("mrr", pa.float64()))
    counts = {"n_relevant": 1, "n_unreachable": 0, "n_retrieved": 1, "n_judged": 1}
    rows = [{"query_id": query, **counts, "mrr": value} for query, value in values.items()]
    return QUERY_METRICS.check(pa.Table.from_pylist(rows, schema=schema))


def test_means_by_tag_in_alphabetical_order() -> None:
    tags = {"q1": ["typo", "short"], "q2": ["typo"], "q3": ["short"], "q4": []}
    cells = {
        "bm25": cell({"q1": 1.0, "q2": 0.0, "q3": 0.5, "q4": 1.0}),
        "dense": cell({"q1": 0.25, "q2": 0.75, "q3": 0.25, "q4": 0.0}),
    }
    short, typo = by_tag(cells, queries(tags), "mrr")
    assert short == TagSlice("short", 2, {"bm25": 0.75, "dense": 0.25})
    assert typo == TagSlice("typo", 2, {"bm25": 0.5, "dense": 0.5})
    assert (short.best, typo.best) == (0.75, 0.5)


def test_queries_without_a_value_are_not_counted() -> None:
    cells = {"bm25": cell({"q1": 1.0, "q2": None, "q3": None})}
    tags = {"q1": ["a"], "q2": ["a", "none"], "q3": ["none"]}
    assert by_tag(cells, queries(tags), "mrr") == [TagSlice("a", 1, {"bm25": 1.0})]


def test_a_tag_twice_on_one_query_counts_once() -> None:
    cells = {"bm25": cell({"q1": 1.0, "q2": 0.0})}
    (found,) = by_tag(cells, queries({"q1": ["a", "a"], "q2": ["a"]}), "mrr")
    assert found == TagSlice("a", 2, {"bm25": 0.5})


def test_no_tags() -> None:
    assert by_tag({"bm25": cell({"q1": 1.0})}, queries({"q1": []}), "mrr") == []
