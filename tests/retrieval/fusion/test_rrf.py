from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.schemas import RUNS
from tests.retrieval.fusion.fusing import reciprocal_rank_fusion

Ranking = dict[str, list[tuple[str, str]]]
"""Query -> (unit, chunk shown), best first."""
Fused = tuple[str, int, float, str, str, str]

UNITS = ["a", "a!", "B", "b", "c", "d10", "d9", "\u00e9", "\uffee", "\U0001f600"]
QUERIES = ("q1", "q2", "Q10")


def table(ranking: Ranking) -> pa.Table:
    return RUNS.from_rows(
        [
            {
                "query_id": query,
                "rank": rank,
                "score": -float(rank),
                "unit_id": item,
                "chunk_id": chunk,
                "document_id": f"doc of {chunk}",
            }
            for query, items in ranking.items()
            for rank, (item, chunk) in enumerate(items, 1)
        ]
    )


def one(*rankings: Sequence[str]) -> list[pa.Table]:
    return [table({"q": [(item, item) for item in items]}) for items in rankings]


def fused(
    tables: Sequence[pa.Table], *, k: float = 60, candidates: int = 100, depth: int = 100
) -> list[Fused]:
    found = reciprocal_rank_fusion(tables, k=k, candidates=candidates, depth=depth)
    return [tuple(row.values()) for row in found.to_pylist()]


def items(rows: Sequence[Fused]) -> list[str]:
    return [row[3] for row in rows]


def test_closed_form() -> None:
    rows = fused(one(["a", "b", "c"], ["c", "a"]))
    assert [(row[1], row[3]) for row in rows] == [(1, "a"), (2, "c"), (3, "b")]
    assert [row[2] for row in rows] == pytest.approx(
        [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62], abs=1e-15
    )


def test_ties_are_ordered_by_the_bytes_of_ids_descending() -> None:
    tables = [table({"q": [(unit, unit)]}) for unit in UNITS]
    found = fused(tables)
    assert items(found) == sorted(UNITS, key=lambda unit: unit.encode(), reverse=True)
    assert {row[2] for row in found} == {1 / 61}


def test_same_ranks_in_other_inputs_tie_exactly() -> None:
    """Floating-point sums depend on their order; here an item's inputs must not matter."""
    ranks = [1, 2, 3, 5, 7, 11]
    shuffle = random.Random(3)
    inputs: list[list[str]] = [[f"x{i}-{n}" for n in range(11)] for i in range(len(ranks))]
    names = ["u0", "u1"]
    for name, order in zip(names, (ranks, ranks[::-1]), strict=True):
        for i, rank in enumerate(order):
            inputs[i][rank - 1] = name
    for _ in range(5):
        scores = {row[3]: row[2] for row in fused(one(*inputs))}
        assert scores["u0"] == scores["u1"]
        shuffle.shuffle(inputs)


def test_chunk_shown_is_the_one_of_the_best_rank_and_the_first_input_wins_a_tie() -> None:
    first = table({"q": [("a", "a-first"), ("b", "b-first"), ("c", "c-first")]})
    second = table({"q": [("a", "a-second"), ("c", "c-second"), ("b", "b-second")]})
    shown = {row[3]: (row[4], row[5]) for row in fused([first, second])}
    assert shown == {
        "a": ("a-first", "doc of a-first"),
        "b": ("b-first", "doc of b-first"),
        "c": ("c-second", "doc of c-second"),
    }


RANKINGS = st.dictionaries(
    st.sampled_from(QUERIES),
    st.lists(st.sampled_from(UNITS), max_size=8),
    max_size=3,
)


def naive(
    inputs: Sequence[dict[str, list[str]]], k: int, candidates: int, depth: int
) -> list[tuple[str, int, str, float]]:
    """The formula in exact fractions."""
    rows: list[tuple[str, int, str, float]] = []
    for query in sorted({query for ranking in inputs for query in ranking}):
        scores: dict[str, Fraction] = {}
        for ranking in inputs:
            best: dict[str, int] = {}
            for rank, unit in enumerate(ranking.get(query, [])[:candidates], 1):
                best.setdefault(unit, rank)
            for unit, rank in best.items():
                scores[unit] = scores.get(unit, Fraction(0)) + Fraction(1, k + rank)
        order = sorted(scores, key=lambda unit: (scores[unit], unit.encode()), reverse=True)
        rows += [(query, n, unit, float(scores[unit])) for n, unit in enumerate(order[:depth], 1)]
    return rows


@settings(max_examples=80, deadline=None)
@given(
    st.lists(RANKINGS, min_size=1, max_size=5),
    st.sampled_from([0, 1, 60]),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_equals_the_naive_fusion(
    inputs: list[dict[str, list[str]]], k: int, candidates: int, depth: int
) -> None:
    tables = [
        table({query: [(unit, unit) for unit in units] for query, units in ranking.items()})
        for ranking in inputs
    ]
    rows = fused(tables, k=k, candidates=candidates, depth=depth)
    expected = naive(inputs, k, candidates, depth)
    assert [(row[0], row[1]) for row in rows] == [row[:2] for row in expected]
    assert [row[2] for row in rows] == pytest.approx([row[3] for row in expected], abs=1e-12)
    # With small k, sums of other fractions can be equal (1/2 = 1/3 + 1/6), and not so in floats.
    if k == 60:
        assert items(rows) == [row[2] for row in expected]


def test_equal_bit_for_bit_whatever_the_order_of_the_rows() -> None:
    shuffle = random.Random(5)
    units = [f"d{n}" for n in range(300)]
    tables = [
        table({f"q{q}": [(u, u) for u in shuffle.sample(units, 100)] for q in range(40)})
        for _ in range(4)
    ]
    expected = reciprocal_rank_fusion(tables, k=60, candidates=100, depth=50)
    assert expected.num_rows == 40 * 50
    for _ in range(3):
        mixed = [t.take(shuffle.sample(range(t.num_rows), t.num_rows)) for t in tables]
        assert reciprocal_rank_fusion(mixed, k=60, candidates=100, depth=50).equals(expected)
