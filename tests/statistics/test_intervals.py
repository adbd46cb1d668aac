from __future__ import annotations

import pyarrow as pa

from rag_assets.schemas import INTERVALS
from rag_assets.statistics.intervals import intervals
from tests.statistics.samples import cell, counting

LEVEL = 0.9


def by_metric(table: pa.Table) -> dict[tuple[str, int, str], dict[str, object]]:
    return {(row["split"], row["top_k"], row["metric"]): row for row in table.to_pylist()}


def test_a_row_for_every_cutoff_and_metric() -> None:
    cells = {5: cell([0.0, 0.5, 1.0], **{"precision(rel=2)": [0.2, 0.2, 0.4]}), 1: cell([0, 0, 1])}
    table = intervals(cells, counting(3), LEVEL)
    assert INTERVALS.check(table) == table
    rows = by_metric(table)
    assert list(rows) == [("all", 1, "ndcg"), ("all", 5, "ndcg"), ("all", 5, "precision(rel=2)")]
    row = rows["all", 5, "ndcg"]
    assert (row["n"], row["mean"], row["confidence"]) == (3, 0.5, 0.9)
    assert row["method"] == "Student's with two extreme values over queries"
    assert 0 <= float(str(row["low"])) < 0.5 < float(str(row["high"])) <= 1


def test_nulls_are_not_counted_and_a_single_value_has_no_interval() -> None:
    rows = by_metric(intervals({5: cell([0.5, None], mrr=[None, None])}, counting(2), LEVEL))
    one, none = rows["all", 5, "ndcg"], rows["all", 5, "mrr"]
    assert [one[name] for name in ("n", "mean", "low", "high")] == [1, 0.5, None, None]
    assert [none[name] for name in ("n", "mean", "low", "high")] == [0, None, None, None]


def test_weights_splits_and_clusters() -> None:
    counts = counting(
        6, [1, 1, 2, 1, 3, 0], ["dev"] * 3 + ["test"] * 3, ["a", "a", "b", "c", "d", "e"]
    )
    rows = by_metric(intervals({5: cell([0, 1, 1, 0, 1, 0.7])}, counts, LEVEL))
    assert list(rows) == [("dev", 5, "ndcg"), ("test", 5, "ndcg")]
    assert rows["dev", 5, "ndcg"]["mean"] == 0.75
    assert rows["dev", 5, "ndcg"]["method"] == "Student's with two extreme values over clusters"
    assert (rows["test", 5, "ndcg"]["n"], rows["test", 5, "ndcg"]["mean"]) == (2, 0.75)
    assert rows["test", 5, "ndcg"]["method"] == "Student's with two extreme values over queries"
