"""Means, the leaderboard, and how alike retrievers rank."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.leaderboard import leaderboard, mean, splits_of, summarise
from rag_assets.evaluation.likeness_stage import (
    DOCUMENT,
    UNIT,
    Pair,
    intra_list_similarity,
    overlaps,
    pairs,
)
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.metrics_stage import without_failed
from rag_assets.evaluation.query_facts import facts_table
from rag_assets.models.cache_fill import as_wanted
from rag_assets.schemas import METRICS_SUMMARY, column_values
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
    labels = [("hit", "e1", "a", 1), ("hit", "e2", None, 1)]
    labels += [("lost", "e1", "a", 1), ("none", "e1", "a", 0)]
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


def test_evidences_of_a_failed_query_are_in_no_denominator_of_recall() -> None:
    counts = []
    for cell in (cells(2)[2], failed("hit")):
        (row,) = summarise(
            {2: cell}, {2: ["mrr"]}, EACH_ONCE, {"hit": 1, "lost": 0}, GRADE_0
        ).to_pylist()
        counts.append((row["n_unreachable"], row["n_not_in_corpus"]))
    assert counts == [(1, 1), (0, 0)]


def failed(*query_ids: str) -> pa.Table:
    table = without_failed(cells(2)[2], {*query_ids, "unknown"})
    for row in table.to_pylist():
        assert row["failed"] is (row["query_id"] in query_ids)
        assert not row["failed"] or row["ndcg"] is None
    return table


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
    return [*column_values(board, "position", "retriever", "top_k")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"d": 0.1, "c": 0.5, "b": 0.5, "a": 0.9}, [(1, "a"), (2, "b"), (2, "c"), (4, "d")]),
        ({"a": 0.1 + 0.2, "b": 0.3, "c": 0.3 - 1e-9}, [(1, "a"), (1, "b"), (3, "c")]),
    ],
)
def test_equal_values_share_a_place_and_the_next_is_skipped(
    values: dict[str, float], expected: list[tuple[int, str]]
) -> None:
    """Also values that differ in the last bits."""
    board = leaderboard({name: summary({10: value}) for name, value in values.items()}, PRIMARY)
    assert places(board) == [(*place, 10) for place in expected]


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


def both(dev: float, test: float) -> pa.Table:
    return pa.concat_tables([summary({10: dev}, "dev"), summary({10: test}, "test")])


def test_places_are_within_a_split_and_test_comes_first() -> None:
    board = leaderboard({"a": both(0.9, 0.1), "b": both(0.2, 0.3)}, PRIMARY)
    assert splits_of(board) == ["test", "dev"]
    assert board["split"].to_pylist() == ["test", "test", "dev", "dev"]
    assert places(board) == [(1, "b", 10), (2, "a", 10), (1, "a", 10), (2, "b", 10)]


def test_a_tuned_retriever_has_no_place_on_dev_and_takes_none() -> None:
    board = leaderboard({"a": both(0.9, 0.4), "b": both(0.2, 0.3)}, PRIMARY, frozenset({"a"}))
    assert places(board) == [(1, "a", 10), (2, "b", 10), (1, "b", 10), (None, "a", 10)]


def run(*lists: str, documents: str | None = None) -> pa.Table:
    """Make a run; each text is one query's list, each character a unit, best first."""
    found = run_table({f"q{number}": [*units] for number, units in enumerate(lists)})
    if documents is None:
        return found
    place = found.schema.get_field_index("document_id")
    return found.set_column(place, found.schema.field(place), pa.array([*documents]))


def compare(a: pa.Table, b: pa.Table, compared: str = UNIT) -> dict[str, object]:
    row: dict[str, object] = overlaps({"a": a, "b": b}, [Pair("a", "b", compared)]).to_pylist()[0]
    return row


def test_means_are_over_queries_with_anything_retrieved() -> None:
    """q0 equal: 1; q1 disjoint: 0; q2 one empty: 0; q3 both empty: not counted. 1 / 3."""
    row = compare(run("ab", "ab", "a", ""), run("ab", "cd", "", ""))
    assert row["n_queries"] == 3
    assert row["overlap"] == pytest.approx(1 / 3)
    nothing = compare(run(""), run(""))
    assert (nothing["n_queries"], nothing["overlap"]) == (0, None)


def test_different_chunkings_are_compared_by_documents() -> None:
    """Documents D, D, E against E, D collapse to D, E against E, D."""
    a, b = run("abc", documents="DDE"), run("xy", documents="ED")
    assert compare(a, b)["overlap"] == 0
    assert compare(a, b, DOCUMENT)["overlap"] == 1


def test_pairs_know_their_chunkings() -> None:
    found = pairs({"x": ["parts"], "y": ["whole"], "z": ["parts"]})
    assert found == [("x", "y", DOCUMENT), ("x", "z", UNIT), ("y", "z", DOCUMENT)]


ranking = st.permutations("abcdefghijkl").flatmap(
    lambda order: st.integers(0, len(order)).map(lambda n: "".join(order[:n]))
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(ranking, ranking), min_size=1, max_size=4))
def test_equals_sets(lists: list[tuple[str, str]]) -> None:
    counted = [(a, b) for a, b in lists if a or b]
    row = compare(run(*(a for a, _ in lists)), run(*(b for _, b in lists)))
    back = compare(run(*(b for _, b in lists)), run(*(a for a, _ in lists)))
    assert row["n_queries"] == len(counted)
    if counted:
        shared = [len(set(a) & set(b)) / max(len(a), len(b)) for a, b in counted]
        assert row["overlap"] == back["overlap"] == math.fsum(shared) / len(counted)


def test_a_query_on_which_one_failed_is_not_compared() -> None:
    both = {"a": run("abc", "abc"), "b": run("abc", "xyz")}
    pair = [Pair("a", "b", UNIT)]
    (all_queries,) = overlaps(both, pair).to_pylist()
    (without,) = overlaps(both, pair, {"b": ["q1"]}).to_pylist()
    assert (all_queries["n_queries"], all_queries["overlap"]) == (2, 0.5)
    assert (without["n_queries"], without["overlap"]) == (1, 1.0)


VECTORS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.0, 1.0]], dtype=np.float32)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9))
def test_it_is_what_a_loop_over_the_pairs_gives(seed: int, n: int) -> None:
    unit = as_wanted(np.random.default_rng(seed).normal(size=(n, 4)), str, normalise=True)
    wide = unit.astype(np.float64)
    cosines = [float(one @ other) for one, other in combinations(wide, 2)]
    assert intra_list_similarity(unit, n) == pytest.approx(np.mean(cosines), abs=1e-12)


def test_a_single_result_has_no_pair() -> None:
    assert intra_list_similarity(VECTORS, 1) is None
    assert intra_list_similarity(VECTORS[:0], 5) is None
