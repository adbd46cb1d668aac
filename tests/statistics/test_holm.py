from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.statistics.comparisons import holm

P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def test_worked_example() -> None:
    """.01 * 4; .03 * 3 = .09 holds .04 * 2 up; .005 * ... is not lower than the one before it."""
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])


def test_a_test_without_p_is_not_counted() -> None:
    assert holm([None, 0.02, None, 0.03]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([]) == []
    assert holm([None]) == [None]


@given(P_VALUES)
def test_adjusted_values_lie_between_the_raw_ones_and_those_of_bonferroni(
    p_values: list[float],
) -> None:
    for raw, adjusted in zip(p_values, holm(p_values), strict=True):
        assert adjusted is not None
        assert raw <= adjusted <= min(1.0, raw * len(p_values))


@given(P_VALUES, st.randoms())
def test_the_order_of_the_tests_does_not_matter(p_values: list[float], random: Random) -> None:
    places = list(range(len(p_values)))
    random.shuffle(places)
    shuffled = holm([p_values[place] for place in places])
    assert shuffled == [holm(p_values)[place] for place in places]
