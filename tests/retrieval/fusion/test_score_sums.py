from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.retrieval.fusion.methods import NORMALISED, Normalisation
from tests.retrieval.fusion.fusing import (
    Scored,
    comb_mnz,
    comb_sum,
    ranking,
    scores,
)


def normalised(scored: Scored, how: Normalisation, minimum: float = 0.0) -> dict[str, float]:
    """The formulas of the module's head, in Python."""
    values = list(scored.values())
    low, high, mean = min(values), max(values), statistics.fmean(values)
    sd = statistics.pstdev(values)

    def value(s: float) -> float:
        match how:
            case "min_max":
                return (s - low) / (high - low) if high > low else 1.0
            case "theoretical_min_max":
                return (s - minimum) / (high - minimum) if high != minimum else 1.0
            case "z_score":
                return (s - low) / sd if sd else 1.0
            case "distribution":
                return min(1.0, max(0.0, (s - (mean - 3 * sd)) / (6 * sd))) if sd else 0.5
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
    st.sampled_from(sorted(NORMALISED)),
    st.sampled_from([comb_sum, comb_mnz]),
)
def test_equals_the_formula(
    lists: list[Scored], how: Normalisation, method: Callable[..., pa.Table]
) -> None:
    minima = [-1.0, -0.5, -2.0][: len(lists)]
    weights = [0.25, 0.5, 2.0][: len(lists)]
    found = scores(
        method(
            [ranking(one) for one in lists],
            normalisation=how,
            candidates=100,
            depth=100,
            weights=weights,
            minima=minima,
        )
    )
    parts = [normalised(one, how, m) for one, m in zip(lists, minima, strict=True)]
    expected: dict[str, float] = {}
    for item in set().union(*lists):
        held = [(w, p[item]) for w, p in zip(weights, parts, strict=True) if item in p]
        factor = len(held) if method is comb_mnz else 1
        expected[item] = factor * math.fsum(w * v for w, v in held)
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_list_at_its_lowest_possible_score_counts_as_one_whose_scores_are_equal() -> None:
    lists = [ranking({"a": 0, "b": 0}), ranking({"b": 1})]
    found = comb_sum(
        lists, normalisation="theoretical_min_max", candidates=9, depth=9, minima=[0, 0]
    )
    assert scores(found) == {"b": 2.0, "a": 1.0}


def test_only_the_candidates_are_normalised() -> None:
    lists = [ranking({"a": 10, "b": 9, "c": 0}), ranking({"c": 1})]
    found = comb_sum(lists, normalisation="min_max", candidates=2, depth=10)
    assert scores(found) == {"c": 1.0, "a": 1.0, "b": 0.0}


@pytest.mark.real_data
def test_convex_combinations_of_autorag(shared_data: Callable[[str], Path]) -> None:
    cases = json.loads((shared_data("autorag_sample") / "fusion_cases.json").read_text())
    assert len(cases["convex_combination"]) == 6
    for case in cases["convex_combination"]:
        lists = [
            ranking(dict(zip(case[f"{kind}_ids"], case[f"{kind}_scores"], strict=True)))
            for kind in ("semantic", "lexical")
        ]
        how: Normalisation = "min_max" if case["normalize"] == "mm" else "theoretical_min_max"
        found = comb_sum(
            lists,
            normalisation=how,
            candidates=100,
            depth=case["top_k"],
            weights=[case["weight"], 1 - case["weight"]],
            minima=[-1.0, 0.0],
        )
        assert found["unit_id"].to_pylist() == case["expected_ids"]
        assert found["score"].to_pylist() == pytest.approx(case["expected_scores"], rel=1e-3)
