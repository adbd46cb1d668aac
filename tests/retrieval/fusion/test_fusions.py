"""Sums of points for ranks and of normalised scores, against their formulas."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.retrieval.fusion.methods import RRF, Borda, CombMnz, CombSum, SumFusion
from rag_assets.schemas import RUNS
from tests.made_tables import ranked, run_table, scored_table

NORMALISATIONS = ["min_max", "none", "z_score"]

Scored = Mapping[str, float]
"""Unit -> score."""


def ranking(scored: Scored, query: str = "q") -> pa.Table:
    return scored_table({query: {unit: float(score) for unit, score in scored.items()}})


def scores(table: pa.Table) -> dict[str, float]:
    """Return unit -> score, best first."""
    return dict(zip(table["unit_id"].to_pylist(), table["score"].to_pylist(), strict=True))


def fused_by(
    fusion: type[SumFusion],
    rankings: Sequence[pa.Table],
    *,
    candidates: int = 100,
    depth: int = 100,
    **options: object,
) -> pa.Table:
    """Fuse any number of rankings, however few."""
    made = fusion.model_construct(None, **options)
    return made.fuse(rankings, candidates=candidates, depth=depth)


reciprocal_rank_fusion, comb_sum, comb_mnz, borda = (
    partial(fused_by, fusion) for fusion in (RRF, CombSum, CombMnz, Borda)
)


Fused = tuple[str, int, float, str, str, str]

UNITS = ["a", "a!", "B", "b", "c", "d10", "d9", "\u00e9", "\uffee", "\U0001f600"]
QUERIES = ("q1", "q2", "Q10")


def shown(items: Sequence[tuple[str, str]]) -> pa.Table:
    """Return the ranking of a query: units and the chunks that are shown of them, best first."""
    table = run_table({"q": [unit for unit, _ in items]}).to_pylist()
    rows = [
        {**row, "chunk_id": chunk, "document_id": f"doc of {chunk}"}
        for row, (_, chunk) in zip(table, items, strict=True)
    ]
    return RUNS.from_rows(rows)


def fused(
    tables: Sequence[pa.Table], *, k: float = 60, candidates: int = 100, depth: int = 100
) -> list[Fused]:
    found = reciprocal_rank_fusion(tables, k=k, candidates=candidates, depth=depth)
    return [tuple(row.values()) for row in found.to_pylist()]


def items(rows: Sequence[Fused]) -> list[str]:
    return [row[3] for row in rows]


def test_closed_form() -> None:
    rows = fused([run_table({"q": items}) for items in (["a", "b", "c"], ["c", "a"])])
    assert [(row[1], row[3]) for row in rows] == [(1, "a"), (2, "c"), (3, "b")]
    assert [row[2] for row in rows] == pytest.approx(
        [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62], abs=1e-15
    )


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
        tables = [run_table({"q": items}) for items in inputs]
        scores = {row[3]: row[2] for row in fused(tables)}
        assert scores["u0"] == scores["u1"]
        shuffle.shuffle(inputs)


def test_chunk_shown_is_the_one_of_the_best_rank_and_the_first_input_wins_a_tie() -> None:
    first = shown([("a", "a-first"), ("b", "b-first"), ("c", "c-first")])
    second = shown([("a", "a-second"), ("c", "c-second"), ("b", "b-second")])
    assert {row[3]: (row[4], row[5]) for row in fused([first, second])} == {
        "a": ("a-first", "doc of a-first"),
        "b": ("b-first", "doc of b-first"),
        "c": ("c-second", "doc of c-second"),
    }


RANKINGS = st.dictionaries(
    st.sampled_from(QUERIES), st.lists(st.sampled_from(UNITS), max_size=8), max_size=3
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
    rows = fused(list(map(run_table, inputs)), k=k, candidates=candidates, depth=depth)
    expected = naive(inputs, k, candidates, depth)
    assert [(row[0], row[1]) for row in rows] == [row[:2] for row in expected]
    assert [row[2] for row in rows] == pytest.approx([row[3] for row in expected], abs=1e-12)
    # With small k, sums of other fractions can be equal (1/2 = 1/3 + 1/6), and not so in floats.
    if k == 60:
        assert items(rows) == [row[2] for row in expected]


def test_equal_bit_for_bit_whatever_the_order_of_the_rows() -> None:
    shuffle = random.Random(5)
    units = [f"d{n}" for n in range(300)]
    tables = [run_table({f"q{q}": shuffle.sample(units, 100) for q in range(40)}) for _ in range(4)]
    expected = reciprocal_rank_fusion(tables, k=60, candidates=100, depth=50)
    assert expected.num_rows == 40 * 50
    for _ in range(3):
        mixed = [t.take(shuffle.sample(range(t.num_rows), t.num_rows)) for t in tables]
        assert reciprocal_rank_fusion(mixed, k=60, candidates=100, depth=50).equals(expected)


def normalised(scored: Scored, how: str) -> dict[str, float]:
    """The formulas of the module's head, in Python."""
    values = list(scored.values())
    low, high = min(values), max(values)
    sd = statistics.pstdev(values)

    def value(s: float) -> float:
        match how:
            case "min_max":
                return (s - low) / (high - low) if high > low else 1.0
            case "z_score":
                return (s - low) / sd if sd else 1.0
            case _:
                return s

    return {item: value(s) for item, s in scored.items()}


# Scores on a grid: a standard deviation that is zero in exact arithmetic is zero in floats too.
LISTS = st.dictionaries(
    st.sampled_from(list("abcdefgh")), st.integers(0, 12).map(lambda n: n / 4), min_size=1
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(LISTS, min_size=2, max_size=3),
    st.sampled_from(NORMALISATIONS),
    st.sampled_from([comb_sum, comb_mnz]),
)
def test_equals_the_formula(lists: list[Scored], how: str, method: Callable[..., pa.Table]) -> None:
    weights = [0.25, 0.5, 2.0][: len(lists)]
    found = scores(
        method(
            [ranking(one) for one in lists],
            normalisation=how,
            candidates=100,
            depth=100,
            weights=weights,
        )
    )
    parts = [normalised(one, how) for one in lists]
    expected: dict[str, float] = {}
    for item in set().union(*lists):
        held = [(w, p[item]) for w, p in zip(weights, parts, strict=True) if item in p]
        factor = len(held) if method is comb_mnz else 1
        expected[item] = factor * math.fsum(w * v for w, v in held)
    assert found == pytest.approx(expected, abs=1e-9)


def test_only_the_candidates_are_normalised() -> None:
    lists = [ranking({"a": 10, "b": 9, "c": 0}), ranking({"c": 1})]
    found = comb_sum(lists, normalisation="min_max", candidates=2, depth=10)
    assert scores(found) == {"c": 1.0, "a": 1.0, "b": 0.0}


@pytest.mark.real_data
def test_convex_combinations_of_autorag(shared_data: Callable[[str], Path]) -> None:
    cases = json.loads((shared_data("autorag_sample") / "fusion_cases.json").read_text())
    assert len(cases["convex_combination"]) == 6
    for case in (case for case in cases["convex_combination"] if case["normalize"] == "mm"):
        lists = [
            ranking(dict(zip(case[f"{kind}_ids"], case[f"{kind}_scores"], strict=True)))
            for kind in ("semantic", "lexical")
        ]
        found = comb_sum(
            lists,
            normalisation="min_max",
            candidates=100,
            depth=case["top_k"],
            weights=[case["weight"], 1 - case["weight"]],
        )
        assert found["unit_id"].to_pylist() == case["expected_ids"]
        assert found["score"].to_pylist() == pytest.approx(case["expected_scores"], rel=1e-3)


ORDERS = st.lists(st.sampled_from(list("abcdefgh")), min_size=1, unique=True)


def tables(orders: list[list[str]]) -> list:  # type: ignore[type-arg]
    return [ranking({item: -float(n) for n, item in enumerate(order)}) for order in orders]


def borda_points(orders: list[list[str]]) -> dict[str, float]:
    """Points as the paper has them: absent items share what an input has left."""
    union = sorted(set().union(*orders))
    points = dict.fromkeys(union, 0.0)
    for order in orders:
        count = len(union)
        left = [count - rank + 1 for rank in range(len(order) + 1, count + 1)]
        for item in union:
            if item in order:
                points[item] += count - order.index(item)
            else:
                points[item] += sum(left) / len(left)
    return points


@settings(max_examples=50, deadline=None)
@given(st.lists(ORDERS, min_size=2, max_size=3))
def test_borda_is_that_of_the_paper_up_to_one_constant(orders: list[list[str]]) -> None:
    found = scores(borda(tables(orders), candidates=100, depth=100))
    expected = borda_points(orders)
    assert set(found) == set(expected)
    shift = {item: expected[item] - score for item, score in found.items()}
    assert max(shift.values()) == pytest.approx(min(shift.values()), abs=1e-9)
    assert list(found) == ranked(found)


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_equal_scores_are_equal_whatever_their_rounding(how: str) -> None:
    # The mean of three times 0.1 is not 0.1 in floats.
    lists = [ranking({"a": 0.1, "b": 0.1, "c": 0.1})]
    found = comb_mnz(lists, normalisation=how, candidates=9, depth=9)
    expected = {"none": 0.1}.get(how, 1.0)
    assert found["score"].to_pylist() == [expected] * 3
