from __future__ import annotations

import math
import random
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.summary import mean, summarise
from rag_assets.schemas import METRICS_SUMMARY
from tests.made_tables import judgment_table, query_table, run_table


def cells(*cutoffs: int) -> dict[int, pa.Table]:
    run = run_table({"hit": ["x", "a"], "none": ["a", "b"]})
    labels = [
        ("hit", "e1", "a", 1),
        ("hit", "e2", None, 1),
        ("lost", "e1", "a", 1),
        ("none", "e1", "a", 0),
    ]
    queries = query_table(["hit", "lost", "none"])
    pairs = [("r", k) for k in cutoffs]
    found = query_metrics({"r": run}, {"j": judgment_table(labels)}, {"r": "j"}, queries, pairs)
    return {k: found["r", k] for k in cutoffs}


def test_unanswerable_queries_are_not_averaged_and_missing_ones_count_0() -> None:
    (row,) = summarise(cells(2), {2: ["mrr", "recall"]}).to_pylist()
    assert row == {
        "top_k": 2,
        "n_queries": 2,
        "n_unanswerable": 1,
        "n_empty": 1,
        "n_unreachable": 1,
        "tokens": None,
        "judged": 2 / 4,  # 'a' for 'hit', 'a' for 'none'; 'x' and 'b' have no judgment
        "mrr": (1 / 2 + 0) / 2,
        "recall": (1 / 2 + 0) / 2,
    }


def test_measures_of_another_cutoff_are_null() -> None:
    table = summarise(cells(5, 1), {1: ["mrr"], 5: ["mrr", "recall"]})
    assert table["top_k"].to_pylist() == [1, 5]
    assert table["recall"].to_pylist() == [None, 0.25]
    assert table["mrr"].to_pylist() == [0.0, 0.25]
    assert table.column_names[: len(METRICS_SUMMARY.columns)] == METRICS_SUMMARY.arrow().names


def test_no_answerable_query_and_nothing_retrieved() -> None:
    labels = judgment_table([("q", "e", "a", 0)])
    found = query_metrics(
        {"r": run_table({})}, {"j": labels}, {"r": "j"}, query_table(["q"]), [("r", 1)]
    )
    (row,) = summarise({1: found["r", 1]}, {1: ["map"]}).to_pylist()
    assert (row["n_queries"], row["n_unanswerable"], row["n_empty"]) == (0, 1, 0)
    assert row["judged"] is None
    assert row["map"] is None


def test_no_queries() -> None:
    found = query_metrics(
        {"r": run_table({})}, {"j": judgment_table([])}, {"r": "j"}, query_table([]), [("r", 1)]
    )
    (row,) = summarise({1: found["r", 1]}, {1: ["map"]}).to_pylist()
    assert (row["n_queries"], row["n_empty"], row["map"]) == (0, 0, None)


@given(st.lists(st.none() | st.floats(0, 1), max_size=50), st.randoms(use_true_random=False))
def test_mean_is_exact_whatever_the_order(
    values: list[float | None], shuffle: random.Random
) -> None:
    numbers = [value for value in values if value is not None]
    found = mean(values)
    if not numbers:
        assert found is None
        return
    total = sum(map(Fraction, numbers))
    assert found == float(total) / len(numbers)
    assert mean(shuffle.sample(values, len(values))) == found


def test_mean_of_many_tenths_has_no_drift() -> None:
    assert sum([0.1] * 10_000) / 10_000 != 0.1
    assert mean([0.1] * 10_000) == 0.1
    assert mean([]) is None
    assert mean([None]) is None
    assert mean([0.0, None]) == pytest.approx(0.0)
    assert math.isclose(mean([0.25, None, 0.75]) or 0.0, 0.5)
