from __future__ import annotations

import pyarrow as pa
import pytest

from rag_assets.evaluation.table_checks import incomplete, out_of_bounds, tied_at_cut

QUERIES = pa.table({"query_id": ["q1", "q2"]})


def metrics(**columns: list[object]) -> pa.Table:
    whole: dict[str, list[object]] = {
        "query_id": ["q1", "q2"],
        "failed": [False, False],
        "ties_at_cut": [0, None],
        "ndcg": [1.0, None],
    }
    return pa.table(whole | columns)


def test_a_sound_table_has_no_problem() -> None:
    table = metrics()
    assert out_of_bounds(table, ["ndcg"]) == []
    assert incomplete(table, QUERIES) == []
    assert tied_at_cut(table) == []


@pytest.mark.parametrize("value", [1.001, -0.001, float("nan"), float("inf")])
def test_a_value_out_of_bounds(value: float) -> None:
    (found,) = out_of_bounds(metrics(ndcg=[0.0, value]), ["ndcg"])
    assert found == f"query 'q2': ndcg is {value:g}"


def test_queries_that_are_missing_twice_there_or_failed() -> None:
    assert incomplete(metrics(query_id=["q1", "q1"]), QUERIES) == [
        "query 'q1': 2 rows of metrics",
        "query 'q2': 0 rows of metrics",
    ]
    assert incomplete(metrics(failed=[False, True]), QUERIES) == [
        "query 'q2': the retriever failed"
    ]


def test_ties_at_the_cut() -> None:
    (found,) = tied_at_cut(metrics(ties_at_cut=[0, 2]))
    assert found == "query 'q2': units below the cut that score as the last one above it: 2"
