from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.evaluation.leaderboard import mean, summarise
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.metrics_stage import without_failed
from rag_assets.evaluation.query_facts import facts_table
from tests.labels.health.tables import Label, qrels
from tests.made_tables import judgment_table, query_table, run_table


def counting(
    *query_ids: str,
    weights: Mapping[str, float] | None = None,
    splits: Mapping[str, str] | None = None,
) -> pa.Table:
    return facts_table(query_ids, {}, weights or {}, splits or {}, {})


EACH_ONCE = counting("hit", "lost", "none")

GRADE_0 = qrels(("none", "e1", "a", None, 0))


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
    (row,) = summarise(cells(2), {2: ["mrr", "recall"]}, EACH_ONCE, qrels=GRADE_0).to_pylist()
    assert row == {
        "split": "all",
        "top_k": 2,
        "n_queries": 2,
        "weight": 2.0,
        "n_attempted": 3,
        "n_answered": 2,
        "n_empty": 1,
        "n_failed": 0,
        "n_unanswerable": 1,
        "n_unlabelled": 0,
        "n_unreachable": 1,
        "n_not_in_corpus": 0,
        "n_unjudged": 2,
        "tokens": None,
        "n_tied": None,
        "judged": 2 / 4,  # 'a' for 'hit', 'a' for 'none'; 'x' and 'b' have no judgment
        "mrr": (1 / 2 + 0) / 2,
        "recall": (1 / 2 + 0) / 2,
    }


@pytest.mark.parametrize(
    ("labels", "declared", "counts"),
    [
        ([], (), (0, 1)),
        ([("none", "e1", "a", None, -1)], (), (0, 1)),
        ([("none", "e1", "a", None, 0)], (), (1, 0)),
        ([], ("none", "hit"), (1, 0)),
    ],
)
def test_a_query_is_unanswerable_only_where_the_data_says_so(
    labels: list[Label], declared: tuple[str, ...], counts: tuple[int, int]
) -> None:
    facts = facts_table(["hit", "lost", "none"], {}, {}, {}, {}, declared)
    (row,) = summarise(cells(2), {2: ["mrr"]}, facts, qrels=qrels(*labels)).to_pylist()
    assert (row["n_unanswerable"], row["n_unlabelled"]) == counts


@pytest.mark.parametrize(
    ("ties", "n_tied"), [([0, 2, 1], 1), ([1, 1, 0], 2), ([2, None, 1], None), ([0, 0, None], 0)]
)
def test_tied_queries_are_counted_among_the_averaged(
    ties: list[int | None], n_tied: int | None
) -> None:
    """'none' is not averaged, so it does not matter whether its order is known."""
    (table,) = cells(2).values()
    place = table.schema.get_field_index("ties_at_cut")
    tied = table.set_column(place, "ties_at_cut", pa.array(ties, table["ties_at_cut"].type))
    (row,) = summarise({2: tied}, {2: ["mrr"]}, EACH_ONCE).to_pylist()
    assert row["n_tied"] == n_tied


def test_no_answerable_query_and_nothing_retrieved() -> None:
    labels = judgment_table([("q", "e", "a", 0)])
    found = query_metrics(
        {"r": run_table({})}, {"j": labels}, {"r": "j"}, query_table(["q"]), [("r", 1)]
    )
    zero = qrels(("q", "e", "a", None, 0))
    (row,) = summarise({1: found["r", 1]}, {1: ["map"]}, counting("q"), qrels=zero).to_pylist()
    assert (row["n_queries"], row["n_unanswerable"], row["n_empty"]) == (0, 1, 1)
    assert row["judged"] is None
    assert row["map"] is None


def test_weights_by_hand() -> None:
    """mrr 1/2 with weight 3, 0 with weight 2; the unanswerable query's 7 count nothing."""
    counts = counting("hit", "lost", "none", weights={"hit": 3, "lost": 2, "none": 7})
    (row,) = summarise(cells(2), {2: ["mrr"]}, counts).to_pylist()
    assert (row["mrr"], row["weight"], row["n_queries"]) == (0.3, 5.0, 2)


def test_each_split_has_its_own_row_and_all_has_none() -> None:
    counts = counting("hit", "lost", "none", splits={"hit": "dev", "lost": "test", "none": "test"})
    measures = {1: ["mrr"], 2: ["mrr"]}
    rows = summarise(cells(1, 2), measures, counts, qrels=GRADE_0).to_pylist()
    names = ("split", "top_k", "n_attempted", "n_queries", "n_unanswerable", "mrr")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("dev", 1, 1, 1, 0, 0.0),
        ("dev", 2, 1, 1, 0, 0.5),
        ("test", 1, 2, 1, 1, 0.0),
        ("test", 2, 2, 1, 1, 0.0),
    ]


def test_a_failed_query_is_counted_and_is_in_no_mean() -> None:
    """Empty and failed look alike in a run; only the empty one counts 0."""
    (row,) = summarise({2: failed("lost")}, {2: ["mrr"]}, EACH_ONCE, qrels=GRADE_0).to_pylist()
    assert (row["mrr"], row["n_queries"], row["weight"]) == (0.5, 1, 1.0)
    names = ("n_attempted", "n_answered", "n_empty", "n_failed", "n_unanswerable")
    assert [row[name] for name in names] == [3, 2, 0, 1, 1]


def failed(*query_ids: str) -> pa.Table:
    table = without_failed(cells(2)[2], {*query_ids, "unknown"})
    for row in table.to_pylist():
        assert row["failed"] is (row["query_id"] in query_ids)
        assert not row["failed"] or row["ndcg"] is None
    return table


@functools.cache
def one_cell() -> pa.Table:
    return cells(2)[2]


@given(
    st.dictionaries(
        st.sampled_from(["hit", "lost", "none"]),
        st.tuples(st.floats(0.01, 100), st.sampled_from(["dev", "test"]), st.booleans()),
        min_size=3,
    )
)
def test_accounting_adds_up(drawn: dict[str, tuple[float, str, bool]]) -> None:
    weights = {query_id: weight for query_id, (weight, _, _) in drawn.items()}
    splits = {query_id: split for query_id, (_, split, _) in drawn.items()}
    fails = {query_id for query_id, (_, _, fails) in drawn.items() if fails}
    table = without_failed(one_cell(), fails)
    counts = counting(*drawn, weights=weights, splits=splits)
    rows = summarise({2: table}, {2: ["mrr"]}, counts).to_pylist()
    assert sum(row["n_attempted"] for row in rows) == 3
    for row in rows:
        assert row["n_attempted"] == row["n_answered"] + row["n_empty"] + row["n_failed"]
        assert (row["mrr"] is None) is (row["n_queries"] == 0)
        assert (row["weight"] == 0) is (row["n_queries"] == 0)


def test_tokens_are_averaged_like_the_metrics() -> None:
    tokens = pa.array([10, 30, 500], pa.int64())  # hit, lost, none; sorted by id
    table = cells(2)[2]
    table = table.set_column(table.column_names.index("tokens"), "tokens", tokens)
    counts = counting("hit", "lost", "none", weights={"hit": 3})
    (row,) = summarise({2: table}, {2: ["mrr"]}, counts).to_pylist()
    assert row["tokens"] == (3 * 10 + 30) / 4


PAIRS = st.tuples(st.none() | st.floats(1e-9, 1) | st.just(0.0), st.floats(1e-3, 2.0**53))


@given(st.lists(PAIRS, max_size=40))
def test_weighted_sums_are_exact(pairs: list[tuple[float | None, float]]) -> None:
    counted = [(Fraction(v), Fraction(w)) for v, w in pairs if v is not None]
    found = mean([v for v, _ in pairs], [w for _, w in pairs])
    if not counted:
        assert found is None
        return
    exact = float(sum(v * w for v, w in counted)) / float(sum(w for _, w in counted))
    assert found == exact


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
