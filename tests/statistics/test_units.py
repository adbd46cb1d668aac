from __future__ import annotations

import numpy as np
import pytest

from rag_assets.statistics.paired_tests import spread
from rag_assets.statistics.units import units_of, weighted_mean
from tests.statistics.samples import alone


def test_a_cluster_is_the_sum_of_its_queries_in_the_order_of_names() -> None:
    values = np.array([[1.0], [0.5], [0.25]])
    units = units_of(values, np.array([1.0, 2.0, 4.0]), ["b", "a", "b"])
    assert units.sums.tolist() == [[1.0], [2.0]]
    assert units.weights.tolist() == [[2.0], [5.0]]


def test_a_query_without_a_value_weighs_nothing_in_that_column() -> None:
    values = np.array([[1.0, np.nan], [np.nan, np.nan]])
    units = units_of(values, np.ones(2), ["a", "b"])
    assert units.weights.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert [part.tolist() for part in units.column(0)] == [[1.0], [1.0]]
    assert weighted_mean(*units.column(1)) is None


def test_the_standard_error_of_single_queries_is_the_ordinary_one() -> None:
    values = np.array([0.1, 0.4, 0.4, 0.9])
    found = spread(*alone(values).column(0))
    assert found is not None
    assert found.mean == pytest.approx(values.mean())
    assert found.error == pytest.approx(values.std(ddof=1) / 2)


def test_a_weight_acts_as_so_many_equal_queries_of_one_cluster() -> None:
    values, names = np.array([[0.1], [0.4], [0.9]]), ["a", "b", "c"]
    weighted = units_of(values, np.array([1.0, 3.0, 1.0]), names)
    repeated = units_of(values[[0, 1, 1, 1, 2]], np.ones(5), ["a", "b", "b", "b", "c"])
    one, other = spread(*weighted.column(0)), spread(*repeated.column(0))
    assert one is not None
    assert other is not None
    assert one == pytest.approx(other)


@pytest.mark.parametrize("values", [[], [0.5]])
def test_without_two_units_there_is_no_spread(values: list[float]) -> None:
    assert spread(*alone(values).column(0)) is None
