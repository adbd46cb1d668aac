from __future__ import annotations

import numpy as np
import pytest

from rag_assets.statistics.comparisons import cohens_d, difference


def test_worked_example() -> None:
    values = np.array([0.0, 0.5, 1.0, 0.5])
    assert difference(values, np.ones(4)) == 0.5
    assert cohens_d(values, np.ones(4)) == pytest.approx(0.5 / np.sqrt(0.5 / 3))


def test_equal_weights_do_not_matter_and_others_do() -> None:
    values = np.array([0.1, 0.4, -0.2])
    assert cohens_d(values, np.full(3, 7.0)) == pytest.approx(cohens_d(values, np.ones(3)))
    assert difference(values, np.array([1.0, 2.0, 1.0])) == pytest.approx(0.175)
    assert cohens_d(values, np.array([1.0, 2.0, 1.0])) == pytest.approx(
        0.175 / np.sqrt(3 / 2 * (0.075**2 + 2 * 0.225**2 + 0.375**2) / 4)
    )


@pytest.mark.parametrize(
    ("values", "d"), [([], None), ([0.3], None), ([0.3, 0.3], None), ([0.0, 0.0], 0.0)]
)
def test_degenerate_differences(values: list[float], d: float | None) -> None:
    assert cohens_d(np.array(values), np.ones(len(values))) == d


def test_no_query() -> None:
    assert difference(np.array([]), np.array([])) is None


def test_weights_below_one_are_weights() -> None:
    assert difference(np.array([0.5]), np.array([0.25])) == 0.5
    assert difference(np.array([0.5]), np.array([0.0])) is None
