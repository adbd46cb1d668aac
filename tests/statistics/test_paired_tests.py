"""Paired tests: randomisation, t, Wilcoxon, Holm, effect sizes, published comparisons."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rag_assets.statistics import units
from rag_assets.statistics.comparisons import holm
from rag_assets.statistics.paired_tests import Alternative, randomisation_p_values, spread
from rag_assets.statistics.units import Resampling, units_of
from tests.statistics.samples import Floats, alone

ROOT = Path(__file__).parents[2]
QUICK = Resampling(resamples=2000)
SIDES: tuple[Alternative, ...] = ("two-sided", "greater", "less")


def sample(n: int, shift: float = 0.0, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).normal(shift, 1, size=n)


def p_of(values: Floats | list[float], side: Alternative = "two-sided") -> float | None:
    return randomisation_p_values(alone(values), Resampling(), side)[0]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("n", [2, 5, 12])
def test_few_queries_are_exact(n: int, side: Alternative) -> None:
    values = sample(n, 0.3)
    other = stats.permutation_test(
        (values, np.zeros(n)),
        lambda a, b: np.mean(a - b),
        permutation_type="samples",
        n_resamples=np.inf,
        alternative=side,
    ).pvalue
    assert p_of(values, side) == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize("side", SIDES)
def test_many_queries_are_close_to_scipy(side: Alternative) -> None:
    values = sample(60, 0.2)
    other = stats.permutation_test(
        (values, np.zeros(60)),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        alternative=side,
        rng=np.random.default_rng(4),
    ).pvalue
    assert p_of(values, side) == pytest.approx(other, abs=0.015)


@pytest.mark.parametrize("n", [8, 40])
def test_p_is_uniform_where_there_is_no_difference(n: int) -> None:
    null = np.random.default_rng(7).normal(size=(n, 1000))
    p_values = np.array(randomisation_p_values(alone(null), QUICK), dtype=np.float64)
    for level in (0.05, 0.1, 0.5):
        assert (p_values <= level).mean() == pytest.approx(level, abs=3.5 * (level / 1000) ** 0.5)
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_clusters_that_share_their_fate_raise_no_false_alarm() -> None:
    rng = np.random.default_rng(8)
    null = np.repeat(rng.normal(size=(30, 500)), 4, axis=0)
    names = [f"d{number:02}" for number in np.repeat(np.arange(30), 4)]
    clustered = randomisation_p_values(units_of(null, np.ones(120), names), QUICK)
    single = randomisation_p_values(alone(null), QUICK)
    assert (np.array(clustered, dtype=np.float64) <= 0.05).mean() < 0.09
    assert (np.array(single, dtype=np.float64) <= 0.05).mean() > 0.25


def test_sums_that_are_equal_on_paper_are_equal() -> None:
    """1/3 + 1/6 = 1/2: half of the patterns reach the sum that was seen, whatever the rounding."""
    values = [1 / 3, 1 / 6, -1 / 2]
    assert p_of(values) == 1.0


@pytest.mark.parametrize(
    ("values", "p"),
    [([], None), ([float("nan")], None), ([0.5], 1.0), ([0.0, 0.0], 1.0), ([0.1 + 0.2 - 0.3], 1.0)],
)
def test_degenerate_differences(values: list[float], p: float | None) -> None:
    assert p_of(values) == p


@pytest.mark.parametrize("block", [1, 64, 5000])
def test_the_size_of_the_blocks_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    queries = alone(np.column_stack([sample(70), np.pad(sample(9), (0, 61))]))
    whole = randomisation_p_values(queries, QUICK)
    monkeypatch.setattr(units, "BLOCK", block)
    assert randomisation_p_values(queries, QUICK) == whole


THREADS = """
import numpy as np
from rag_assets.statistics.intervals import resampled_means
from rag_assets.statistics.paired_tests import randomisation_p_values
from rag_assets.statistics.units import Resampling
from tests.statistics.samples import alone
units = alone(np.random.default_rng(1).random((700, 40)) - 0.49)
means = resampled_means(units, Resampling(resamples=1000))
p = randomisation_p_values(units, Resampling(resamples=1000))
print(means.tobytes().hex(), p)
"""


def test_the_number_of_threads_does_not_matter() -> None:
    printed = set()
    for threads in ("1", "4"):
        variables = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", THREADS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.add(done.stdout)
    assert len(printed) == 1


def test_worked_example() -> None:
    """.01 * 4; .03 * 3 = .09 holds .04 * 2 up; .005 * ... is not lower than the one before it."""
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])


def test_a_test_without_p_is_not_counted() -> None:
    assert holm([None, 0.02, None, 0.03]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([]) == []
    assert holm([None]) == [None]


def test_a_cluster_is_the_sum_of_its_queries_in_the_order_of_names() -> None:
    values = np.array([[1.0], [0.5], [0.25]])
    units = units_of(values, np.array([1.0, 2.0, 4.0]), ["b", "a", "b"])
    assert units.sums.tolist() == [[1.0], [2.0]]
    assert units.weights.tolist() == [[2.0], [5.0]]


def test_a_weight_acts_as_so_many_equal_queries_of_one_cluster() -> None:
    values, names = np.array([[0.1], [0.4], [0.9]]), ["a", "b", "c"]
    weighted = units_of(values, np.array([1.0, 3.0, 1.0]), names)
    repeated = units_of(values[[0, 1, 1, 1, 2]], np.ones(5), ["a", "b", "b", "b", "c"])
    one, other = spread(*weighted.column(0)), spread(*repeated.column(0))
    assert one is not None
    assert other is not None
    assert one == pytest.approx(other)
