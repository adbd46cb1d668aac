"""Wilson's interval, against scipy's and at the ends."""

from __future__ import annotations

import pytest
from scipy import stats

from rag_assets.statistics.intervals import wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (0, 20), (7, 20), (95, 100), (3, 3)])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_equals_scipy(successes: int, n: int, level: float) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert wilson(successes / n, n, level) == pytest.approx(tuple(expected), abs=1e-12)


def test_nothing_observed_says_nothing() -> None:
    assert wilson(0.0, 0) == (0.0, 1.0)


def test_the_share_itself_is_always_inside() -> None:
    for n in range(1, 60):
        for share in (0.0, 1.0):
            low, high = wilson(share, n)
            assert 0 <= low <= share <= high <= 1
