"""Overlap and rank-biased overlap against worked arithmetic and the infinite sum."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.overlaps_stage import DOCUMENT, UNIT, Pair, overlaps, pairs
from rag_assets.schemas import RUNS

P = 0.9


def run(*lists: str, documents: str | None = None) -> pa.Table:
    """Make a run; each text is one query's list, each character a unit, best first."""
    rows = [
        {
            "query_id": f"q{number}",
            "rank": rank,
            "score": 1 / rank,
            "unit_id": unit,
            "chunk_id": unit,
            "document_id": unit if documents is None else documents[rank - 1],
        }
        for number, units in enumerate(lists)
        for rank, unit in enumerate(units, 1)
    ]
    return RUNS.from_rows(rows)


def compare(a: pa.Table, b: pa.Table, compared: str = UNIT) -> dict[str, object]:
    row: dict[str, object] = overlaps({"a": a, "b": b}, [Pair("a", "b", compared)]).to_pylist()[0]
    return row


def infinite_rbo(a: str, b: str, depth: int = 400) -> float:
    """Sum (1 - p) p^(d-1) A(d) over all d, with A continued below the lists as the paper does.

    Below the end of the shorter list its agreement there goes on for the part that is not seen;
    below both, the agreement of the last rank stays.
    """
    short, long = sorted((a, b), key=len)
    s, n = len(short), len(long)
    if s == 0:
        return 0.0
    total = 0.0
    for d in range(1, depth):
        seen = min(d, n)
        common = len(set(short[:seen]) & set(long[:seen]))
        unseen = max(seen - s, 0) * len(set(short) & set(long[:s])) / s
        total += (1 - P) * P ** (d - 1) * (common + unseen) / seen
    return total


def test_swapped_neighbours() -> None:
    """A(1) = 0, A(2) = 1: 0.1 / 0.9 * (1 * 0.81) + 1 * 0.81 = 0.09 + 0.81."""
    row = compare(run("ab"), run("ba"))
    assert row["overlap"] == 1
    assert row["rbo"] == pytest.approx(0.90, abs=1e-14)


def test_means_are_over_queries_with_anything_retrieved() -> None:
    """q0 equal: 1; q1 disjoint: 0; q2 one empty: 0; q3 both empty: not counted. 1 / 3."""
    row = compare(run("ab", "ab", "a", ""), run("ab", "cd", "", ""))
    assert row["n_queries"] == 3
    assert row["overlap"] == pytest.approx(1 / 3)
    assert row["rbo"] == pytest.approx(1 / 3)


def test_nothing_retrieved_at_all_gives_no_number() -> None:
    row = compare(run(""), run(""))
    assert (row["n_queries"], row["overlap"], row["rbo"]) == (0, None, None)


def test_different_chunkings_are_compared_by_documents() -> None:
    """Documents D, D, E against E, D collapse to D, E against E, D: the swap again."""
    a, b = run("abc", documents="DDE"), run("xy", documents="ED")
    assert compare(a, b)["overlap"] == 0
    row = compare(a, b, DOCUMENT)
    assert row["overlap"] == 1
    assert row["rbo"] == pytest.approx(0.90, abs=1e-14)


def test_pairs_know_their_chunkings() -> None:
    found = pairs({"x": ["parts"], "y": ["whole"], "z": ["parts"]})
    assert found == [("x", "y", DOCUMENT), ("x", "z", UNIT), ("y", "z", DOCUMENT)]


ranking = st.permutations("abcdefghijkl").flatmap(
    lambda order: st.integers(0, len(order)).map(lambda n: "".join(order[:n]))
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(ranking, ranking), min_size=1, max_size=4))
def test_equals_the_infinite_sum(lists: list[tuple[str, str]]) -> None:
    counted = [(a, b) for a, b in lists if a or b]
    row = compare(run(*(a for a, _ in lists)), run(*(b for _, b in lists)))
    back = compare(run(*(b for _, b in lists)), run(*(a for a, _ in lists)))
    assert row["n_queries"] == len(counted)
    if counted:
        expected = math.fsum(infinite_rbo(a, b) for a, b in counted) / len(counted)
        shared = [len(set(a) & set(b)) / max(len(a), len(b)) for a, b in counted]
        assert row["rbo"] == pytest.approx(expected, abs=1e-12)
        assert row["overlap"] == pytest.approx(math.fsum(shared) / len(counted), abs=1e-14)
        assert back["rbo"] == pytest.approx(row["rbo"], abs=1e-14)


def test_a_query_on_which_one_failed_is_not_compared() -> None:
    both = {"a": run("abc", "abc"), "b": run("abc", "xyz")}
    pair = [Pair("a", "b", UNIT)]
    (all_queries,) = overlaps(both, pair).to_pylist()
    (without,) = overlaps(both, pair, {"b": ["q1"]}).to_pylist()
    assert (all_queries["n_queries"], all_queries["overlap"]) == (2, 0.5)
    assert (without["n_queries"], without["overlap"]) == (1, 1.0)
