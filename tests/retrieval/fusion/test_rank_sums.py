from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.fusion.fusing import (
    borda,
    expected_order,
    inverse_square_rank,
    ranking,
    scores,
)

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
    assert list(found) == expected_order(found)


def test_inverse_square_rank() -> None:
    found = scores(inverse_square_rank(tables([["a", "b"], ["c", "a"]]), candidates=9, depth=9))
    assert found == pytest.approx({"a": 2 * (1 + 1 / 4), "c": 1.0, "b": 1 / 4})
    assert list(found) == ["a", "c", "b"]
