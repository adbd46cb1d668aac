from __future__ import annotations

from collections.abc import Sequence
from math import comb, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.retrieval.fusion.stage import SAME, Search, Weights, search_weights


def near(target: Sequence[float]) -> object:
    """A value that falls with the distance to a target."""

    def values_of(vectors: Sequence[Weights]) -> list[float]:
        return [-sum((a - b) ** 2 for a, b in zip(v, target, strict=True)) for v in vectors]

    return values_of


def chosen(search: Search) -> Weights:
    return search.tried[search.chosen].weights


def test_the_grid_of_two() -> None:
    found = search_weights(2, 5, near([0.9, 0.1]))  # type: ignore[arg-type]
    weights = [one.weights for one in found.tried]
    assert weights == [(0.5, 0.5), (0, 1), (0.25, 0.75), (0.75, 0.25), (1, 0)]
    assert chosen(found) == (1, 0)


@pytest.mark.parametrize(("grid", "lacks_equal"), [(11, 1), (10, 0)])
def test_the_grid_of_three_holds_equal_weights_also_between_its_points(
    grid: int, lacks_equal: int
) -> None:
    found = search_weights(3, grid, near([0.2, 0.5, 0.3]))  # type: ignore[arg-type]
    vectors = [one.weights for one in found.tried]
    assert len(set(vectors)) == len(vectors) == comb(grid + 1, 2) + lacks_equal
    assert vectors[0] == (1 / 3, 1 / 3, 1 / 3)
    assert all(isclose(sum(vector), 1) and min(vector) >= 0 for vector in vectors)


def test_of_equal_values_the_nearest_to_equal_weights_wins_then_the_first() -> None:
    plateau = {0.0: 1.0, 0.1: 1.0, 0.3: 1.0 - 1e-15, 0.7: 1.0}
    found = search_weights(2, 11, lambda vectors: [plateau.get(v[0], 0.5) for v in vectors])
    assert chosen(found) == (0.3, 0.7)
    assert chosen(search_weights(2, 11, lambda vectors: [0.0] * len(vectors))) == (0.5, 0.5)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(2, 7), st.randoms(use_true_random=False))
def test_the_chosen_is_the_best_and_no_worse_than_equal_weights(
    n_inputs: int, grid: int, random: object
) -> None:
    draw = random.random  # type: ignore[attr-defined]
    found = search_weights(n_inputs, grid, lambda vectors: [draw() for _ in vectors])
    values = [one.value for one in found.tried]
    assert values[found.chosen] > max(values) - SAME
    assert all(isclose(sum(one.weights), 1, abs_tol=1e-9) for one in found.tried)


def test_too_many_vectors_are_refused() -> None:
    problem = "8 inputs on a grid of 11 are 19,448 weight vectors, at most 10,000 are allowed"
    with pytest.raises(UsageError, match=problem):
        search_weights(8, 11, lambda vectors: [0.0] * len(vectors))
