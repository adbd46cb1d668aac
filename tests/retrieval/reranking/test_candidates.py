from __future__ import annotations

import numpy as np
import pyarrow as pa

from rag_assets.retrieval.reranking.candidates import candidate_lists, reordered
from rag_assets.schemas import QUERIES, RUNS
from tests.retrieval.fusion.fusing import ranking


def two_queries() -> pa.Table:
    return pa.concat_tables(
        [ranking({"a": 3, "b": 2, "c": 1}, "q2"), ranking({"a": 5, "d": 4}, "q1")]
    )


def asked() -> pa.Table:
    rows: list[dict[str, object]] = [
        {"query_id": name, "text": f"text of {name}", "tags": [], "metadata": "{}"}
        for name in ("q1", "q2", "q3")
    ]
    return QUERIES.from_rows(rows)


TEXTS = {name: f"about {name}" for name in "abcd"}


def test_candidates_stand_in_the_order_of_the_input() -> None:
    first, second = candidate_lists(two_queries(), asked(), TEXTS)
    assert (first.query_id, first.query) == ("q1", "text of q1")
    assert (first.unit_ids, first.texts) == (["a", "d"], ["about a", "about d"])
    assert second.unit_ids == ["a", "b", "c"]
    assert second.scores.tolist() == [3.0, 2.0, 1.0]


def test_new_scores_give_the_new_order_and_ties_go_to_the_higher_id() -> None:
    lists = candidate_lists(two_queries(), asked(), TEXTS)
    table = reordered(
        two_queries(), lists, [np.array([0.1, 0.9]), np.array([1.0, 1.0, 2.0])], {}, depth=2
    )
    rows = [tuple(row.values())[:4] for row in table.to_pylist()]
    assert rows == [
        ("q1", 1, 0.9, "d"),
        ("q1", 2, 0.1, "a"),
        ("q2", 1, 2.0, "c"),
        ("q2", 2, 1.0, "b"),
    ]
    assert table.schema == RUNS.arrow()


def test_a_query_that_failed_has_no_rows() -> None:
    lists = candidate_lists(two_queries(), asked(), TEXTS)
    scores = [np.array([0.1, 0.9]), np.empty(0)]
    table = reordered(two_queries(), lists, scores, {"q2": "time-out"}, depth=9)
    assert set(table["query_id"].to_pylist()) == {"q1"}
