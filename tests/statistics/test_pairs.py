"""A pair of systems in one row, its effect size, and the t and signed-rank tests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rag_assets.schemas import COMPARISONS
from rag_assets.statistics.comparisons import all_pairs, cohens_d, comparisons, difference
from rag_assets.statistics.paired_tests import t_test_p_value, wilcoxon_p_value
from rag_assets.statistics.units import Resampling, units_of
from tests.statistics.samples import Floats, alone, cell, column, counting

QUICK = Resampling(resamples=1000)
NUMBERS = ("low", "high", "p_t", "effect_size", "detectable")


def compare(
    counts: pa.Table | None = None, **values: list[float | None]
) -> list[dict[str, object]]:
    cells = {name: cell(found) for name, found in values.items()}
    counts = counting(len(next(iter(values.values())))) if counts is None else counts
    table = comparisons(cells, counts, ("ndcg", 5), QUICK, all_pairs(list(cells)))
    assert COMPARISONS.check(table) == table
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def test_a_pair_puts_everything_together() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(80).round(1), rng.random(80).round(1)
    (row,) = compare(a=a.tolist(), b=b.tolist())
    gained = np.round(b - a, 12)
    assert row["difference"] == pytest.approx(b.mean() - a.mean())
    assert (row["mean_a"], row["mean_b"]) == pytest.approx((a.mean(), b.mean()))
    assert (row["n"], row["n_clusters"], row["top_k"], row["metric"]) == (80, 80, 5, "ndcg")
    assert row["p_t"] == pytest.approx(stats.ttest_rel(b, a).pvalue)
    assert row["p_wilcoxon"] == pytest.approx(stats.wilcoxon(gained, zero_method="pratt").pvalue)
    assert row["p_randomisation"] == pytest.approx(stats.ttest_rel(b, a).pvalue, abs=0.05)
    assert row["p_adjusted"] == row["p_randomisation"]
    assert row["effect_size"] == pytest.approx(gained.mean() / gained.std(ddof=1))
    assert (row["won"], row["tied"], row["lost"]) == (
        (gained > 0).sum(),
        (gained == 0).sum(),
        (gained < 0).sum(),
    )
    assert float(str(row["low"])) < float(str(row["difference"])) < float(str(row["high"]))


def test_the_family_is_all_pairs() -> None:
    rng = np.random.default_rng(3)
    values = {
        name: (rng.random(60) + shift).tolist()
        for name, shift in zip("abc", (0, 0.1, 0.2), strict=True)
    }
    rows = compare(**values)
    assert [(row["retriever_a"], row["retriever_b"]) for row in rows] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    smallest = min(rows, key=lambda row: float(str(row["p_randomisation"])))
    assert smallest["p_adjusted"] == pytest.approx(3 * float(str(smallest["p_randomisation"])))


def test_a_query_without_a_value_in_one_is_left_out_of_the_pair() -> None:
    rows = compare(a=[0.5, None, 0.2], b=[0.7, 0.9, 0.1], c=[0.1, 0.2, 0.3])
    assert [row["n"] for row in rows] == [2, 2, 3]
    assert rows[0]["mean_b"] == pytest.approx(0.4)
    assert rows[0]["difference"] == pytest.approx(0.05)


def test_all_equal() -> None:
    (row,) = compare(a=[0.5] * 7, b=[0.5] * 7)
    low, high = (float(str(row[name])) for name in ("low", "high"))
    assert -1 < low < 0 < high < 1  # on other questions they may differ
    assert [row[name] for name in NUMBERS if name not in ("low", "high")] == [1, 0, None]
    assert (row["p_randomisation"], row["p_wilcoxon"], row["p_adjusted"]) == (1, 1, 1)


def test_no_query_has_both_values() -> None:
    (row,) = compare(a=[0.5, None], b=[None, 0.7])
    assert (row["n"], row["n_clusters"]) == (0, 0)
    shown = ("mean_a", "mean_b", "difference", "p_randomisation", "p_wilcoxon", "p_adjusted")
    assert [row[name] for name in (*NUMBERS, *shown)] == [None] * 11


def test_effect_size_of_a_worked_example() -> None:
    values = np.array([0.0, 0.5, 1.0, 0.5])
    assert difference(values, np.ones(4)) == 0.5
    assert cohens_d(values, np.ones(4)) == pytest.approx(0.5 / np.sqrt(0.5 / 3))


@pytest.mark.parametrize(
    ("values", "d"), [([], None), ([0.3], None), ([0.3, 0.3], None), ([0.0, 0.0], 0.0)]
)
def test_effect_size_of_degenerate_differences(values: list[float], d: float | None) -> None:
    assert cohens_d(np.array(values), np.ones(len(values))) == d


def test_weights_below_one_are_weights() -> None:
    assert difference(np.array([0.5]), np.array([0.25])) == 0.5
    assert difference(np.array([0.5]), np.array([0.0])) is None


@pytest.mark.parametrize("n", [2, 3, 20, 300])
def test_the_t_test_is_that_of_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.random(n), rng.random(n) + 0.1
    assert t_test_p_value(column(alone(b - a))[0]) == pytest.approx(stats.ttest_rel(b, a).pvalue)


def null_p_values(weights: Floats, rng: np.random.Generator, n_columns: int = 4000) -> Floats:
    names = [f"q{number:02}" for number in range(weights.size)]
    units = units_of(rng.normal(size=(weights.size, n_columns)), weights, names)
    found = [t_test_p_value(units.sums[:, number]) for number in range(n_columns)]
    return np.array(found, dtype=np.float64)


def test_p_is_uniform_where_there_is_no_difference_and_weights_differ() -> None:
    rng = np.random.default_rng(6)
    p_values = null_p_values(rng.uniform(1, 4, 60), rng)
    assert stats.kstest(p_values, "uniform").pvalue > 0.001
    assert (p_values <= 0.05).mean() == pytest.approx(0.05, abs=0.012)


@pytest.mark.parametrize(
    ("values", "p"),
    [([], None), ([0.3], None), ([0.3, 0.3], None), ([0.0] * 5, 1.0), ([1e-17, 0.0], 1.0)],
)
def test_the_t_test_of_degenerate_differences(values: list[float], p: float | None) -> None:
    assert t_test_p_value(column(alone(values))[0]) == p


@pytest.mark.parametrize("n", [1, 5, 30, 200])
def test_signed_ranks_are_those_of_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(0.2, 1, n)
    expected = stats.wilcoxon(values).pvalue
    assert wilcoxon_p_value(*column(alone(values))) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(12))
def test_a_few_ties_and_zeros_are_exact_as_in_scipy(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    values = drawn.choice([-2.0, -1.0, 0.0, 1.0, 1.0, 2.5], drawn.integers(1, 8))
    values[0] = 1.0
    expected = stats.wilcoxon(values, zero_method="pratt").pvalue
    assert wilcoxon_p_value(*column(alone(values))) == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([-1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 2.0]), min_size=14, max_size=90))
def test_many_units_have_the_bits_of_scipy(drawn: list[float]) -> None:
    values = np.array([*drawn, 1.0, 1.0])
    expected = stats.wilcoxon(values, zero_method="pratt").pvalue
    assert wilcoxon_p_value(*column(alone(values))) == expected


@pytest.mark.parametrize(
    ("values", "p"),
    [([], None), ([0.3], 1.0), ([0.3, 0.3], 0.5), ([0.0] * 5, 1.0), ([0.1 + 0.2 - 0.3] * 2, 1.0)],
)
def test_signed_ranks_of_degenerate_differences(values: list[float], p: float | None) -> None:
    assert wilcoxon_p_value(*column(alone(values))) == p
