"""Several evaluations of what answers at random: how often the interval is wrong, and its width."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from rag_assets.statistics.repeated_draws import expected_difference, sequence_radius

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "gate_looks.py"


def bayes_factor(values: list[float], mean: float) -> float:
    """The likelihood ratio by numerical integration over the effect size, from N(0, 1)."""
    n = len(values)
    t = (np.mean(values) - mean) / np.std(values, ddof=1) * math.sqrt(n)

    def weighted(effect: float) -> float:
        density = stats.nct.pdf(t, n - 1, effect * math.sqrt(n))
        return float(density * stats.norm.pdf(effect))

    whole = integrate.quad(weighted, -8, 8, limit=200)[0]
    return float(whole / stats.t.pdf(t, n - 1))


@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("n", [9, 15])
def test_the_bounds_are_where_the_likelihood_ratio_is_one_in_alpha(n: int, alpha: float) -> None:
    values = np.random.default_rng(n).normal(0.6, 0.1, n).tolist()
    radius = sequence_radius(float(np.std(values, ddof=1)), n, alpha)
    for side in (-1, 1):
        ratio = bayes_factor(values, float(np.mean(values)) + side * radius)
        assert ratio == pytest.approx(1 / alpha, rel=1e-4)


def test_few_draws_tell_nothing() -> None:
    assert sequence_radius(0.1, 1, 0.05) == math.inf
    assert sequence_radius(0.1, 6, 0.0025) == math.inf
    assert math.isfinite(sequence_radius(0.1, 7, 0.0025))
    assert expected_difference([0.5], [0.6], 0.05, 0.05).low == -math.inf


def test_the_interval_ever_misses_in_fewer_than_five_of_a_hundred() -> None:
    """1,000 sequences that are looked at 200 times each."""
    random = np.random.default_rng(7)
    missed = 0
    for _ in range(1_000):
        values = random.normal(0, 1, 200)
        missed += any(
            abs(values[:n].mean()) > sequence_radius(float(values[:n].std(ddof=1)), n, 0.05)
            for n in range(2, 201)
        )
    assert missed <= 50


def test_draws_of_the_anchor_narrow_the_interval() -> None:
    new = [0.70, 0.72, 0.69, 0.71, 0.70, 0.71, 0.69, 0.70, 0.72, 0.71]
    one, many = (expected_difference(new, new[:n], 0.0025, 0.05) for n in (1, 10))
    assert many.high - many.low < 0.7 * (one.high - one.low)
    assert many.low < 0 < many.high


@pytest.fixture(scope="module")
def benchmark() -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARK))


def test_null_histories_of_random_systems_hardly_ever_fail(benchmark: dict[str, Any]) -> None:
    """1,000 histories of 60 nights in all, of four kinds; the benchmark has 365 nights."""
    for number, world in enumerate(benchmark["RANDOM_WORLDS"]):
        failed = benchmark["random_outcomes"](world, 250, number, 60).any(axis=1).mean()
        assert failed <= 0.05 + 3 * (0.05 * 0.95 / 250) ** 0.5


def test_a_drop_of_a_random_system_is_found(benchmark: dict[str, Any]) -> None:
    """.03 with ten evaluations of the anchor, within 60 nights."""
    world = replace(benchmark["RANDOM_WORLDS"][1], drop=0.03)
    assert benchmark["random_outcomes"](world, 60, 5, 60).any(axis=1).mean() > 0.9
