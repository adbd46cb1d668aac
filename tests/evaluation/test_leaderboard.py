from __future__ import annotations

import pyarrow as pa

from rag_assets.evaluation.leaderboard import leaderboard, splits_of
from rag_assets.evaluation.metric_names import Metric
from rag_assets.schemas import METRICS_SUMMARY

PRIMARY = Metric("ndcg", 10)


def summary(values: dict[int, float | None], split: str = "all", **others: float) -> pa.Table:
    schema = METRICS_SUMMARY.arrow().append(pa.field("ndcg", pa.float64()))
    for name in others:
        schema = schema.append(pa.field(name, pa.float64()))
    names = [column.name for column in METRICS_SUMMARY.columns if column.name.startswith("n_")]
    counts = {name: 0 for name in names} | {"n_queries": 2, "weight": 2.0, "judged": 1.0}
    rows = [
        {"split": split, "top_k": k, **counts, "ndcg": value, **others}
        for k, value in values.items()
    ]
    return METRICS_SUMMARY.check(pa.Table.from_pylist(rows, schema=schema))


def places(board: pa.Table) -> list[tuple[int | None, str, int]]:
    names = ("position", "retriever", "top_k")
    return list(zip(*(board[name].to_pylist() for name in names), strict=True))


def test_best_first_and_cutoffs_ascending() -> None:
    boards = {"low": summary({1: 0.9, 10: 0.2}), "high": summary({1: 0.1, 10: 0.3})}
    board = leaderboard(boards, PRIMARY)
    assert places(board) == [(1, "high", 1), (1, "high", 10), (2, "low", 1), (2, "low", 10)]
    assert board["ndcg"].to_pylist() == [0.1, 0.3, 0.9, 0.2]


def test_equal_values_share_a_place_and_the_next_is_skipped() -> None:
    boards = {
        "d": summary({10: 0.1}),
        "c": summary({10: 0.5}),
        "b": summary({10: 0.5}),
        "a": summary({10: 0.9}),
    }
    assert places(leaderboard(boards, PRIMARY)) == [
        (1, "a", 10),
        (2, "b", 10),
        (2, "c", 10),
        (4, "d", 10),
    ]


def test_values_that_differ_in_the_last_bits_are_equal() -> None:
    boards = {
        "a": summary({10: 0.1 + 0.2}),
        "b": summary({10: 0.3}),
        "c": summary({10: 0.3 - 1e-9}),
    }
    positions = {name: place for place, name, _ in places(leaderboard(boards, PRIMARY))}
    assert positions == {"a": 1, "b": 1, "c": 3}


def test_retrievers_without_the_primary_cell_come_last() -> None:
    boards = {
        "other_cutoff": summary({5: 0.9}),
        "null": summary({10: None}),
        "zero": summary({10: 0.0}),
        "no_column": summary({10: 0.5}).drop_columns(["ndcg"]),
    }
    assert places(leaderboard(boards, PRIMARY)) == [
        (1, "zero", 10),
        (2, "no_column", 10),
        (2, "null", 10),
        (2, "other_cutoff", 5),
    ]


def test_a_metric_that_one_retriever_lacks_is_null() -> None:
    board = leaderboard({"a": summary({10: 0.1}), "b": summary({10: 0.2}, map=0.4)}, PRIMARY)
    assert dict(zip(board["retriever"].to_pylist(), board["map"].to_pylist(), strict=True)) == {
        "b": 0.4,
        "a": None,
    }


def both(dev: float, test: float) -> pa.Table:
    return pa.concat_tables([summary({10: dev}, "dev"), summary({10: test}, "test")])


def test_places_are_within_a_split_and_test_comes_first() -> None:
    board = leaderboard({"a": both(0.9, 0.1), "b": both(0.2, 0.3)}, PRIMARY)
    assert splits_of(board) == ["test", "dev"]
    assert list(zip(board["split"].to_pylist(), places(board), strict=True)) == [
        ("test", (1, "b", 10)),
        ("test", (2, "a", 10)),
        ("dev", (1, "a", 10)),
        ("dev", (2, "b", 10)),
    ]


def test_a_tuned_retriever_has_no_place_on_dev_and_takes_none() -> None:
    board = leaderboard({"a": both(0.9, 0.4), "b": both(0.2, 0.3)}, PRIMARY, frozenset({"a"}))
    assert places(board) == [(1, "a", 10), (2, "b", 10), (1, "b", 10), (None, "a", 10)]
