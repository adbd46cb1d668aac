from __future__ import annotations

import numpy as np
import pytest

from rag_assets.statistics.comparisons import cohens_d, difference


def test_worked_example() -> None:
    values = np.array([0.0, 0.5, 1.0, 0.5])
    assert difference(values, np.ones(4)) == 0.5
    assert cohens_d(values, np.ones(4)) == pytest.approx(0.5 / np.sqrt(0.5 / 3))


@pytest.mark.parametrize(
    ("values", "d"), [([], None), ([0.3], None), ([0.3, 0.3], None), ([0.0, 0.0], 0.0)]
)
def test_degenerate_differences(values: list[float], d: float | None) -> None:
    assert cohens_d(np.array(values), np.ones(len(values))) == d


def test_weights_below_one_are_weights() -> None:
    assert difference(np.array([0.5]), np.array([0.25])) == 0.5
    assert difference(np.array([0.5]), np.array([0.0])) is None
