"""A pair of systems in one row, its effect size, and the t and signed-rank tests."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rag_assets.schemas import COMPARISONS
from rag_assets.statistics import units
from rag_assets.statistics.comparisons import all_pairs, cohens_d, comparisons, difference, holm
from rag_assets.statistics.paired_tests import (
    Alternative,
    randomisation_p_values,
    spread,
    t_test_p_value,
    wilcoxon_p_value,
)
from rag_assets.statistics.units import Counting, Resampling, units_of
from tests.statistics.samples import Floats, alone, cell, column, counting

QUICK = Resampling(resamples=1000)
NUMBERS = ("low", "high", "p_t", "effect_size", "detectable")


def compare(
    counts: Counting | None = None, **values: list[float | None]
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
    signs = [(gained > 0).sum(), (gained == 0).sum(), (gained < 0).sum()]
    assert [row["won"], row["tied"], row["lost"]] == signs
    assert float(str(row["low"])) < float(str(row["difference"])) < float(str(row["high"]))


def test_the_family_is_all_pairs() -> None:
    rng = np.random.default_rng(3)
    rows = compare(**{name: (rng.random(60) + n / 10).tolist() for n, name in enumerate("abc")})
    pairs = [(row["retriever_a"], row["retriever_b"]) for row in rows]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]
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


# Effect size, and p of the t, signed-rank and randomisation tests.
DEGENERATE: list[tuple[list[float], tuple[float | None, ...]]] = [
    ([], (None, None, None, None)),
    ([float("nan")], (None, None, None, None)),
    ([0.3], (None, None, 1.0, 1.0)),
    ([0.3, 0.3], (None, None, 0.5, 0.5)),
    ([0.0] * 5, (0.0, 1.0, 1.0, 1.0)),
    ([1e-17, 0.0], (0.0, 1.0, 1.0, 1.0)),
    ([0.1 + 0.2 - 0.3] * 2, (0.0, 1.0, 1.0, 1.0)),
]


@pytest.mark.parametrize(("values", "expected"), DEGENERATE)
def test_degenerate_differences(values: list[float], expected: tuple[float | None, ...]) -> None:
    found, weights = column(alone(values))
    p_values = (t_test_p_value(found), wilcoxon_p_value(found, weights), p_of(values))
    assert (cohens_d(np.array(values), np.ones(len(values))), *p_values) == expected


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


@pytest.mark.parametrize("n", [1, 5, 30, 50, 51, 200])
def test_signed_ranks_are_those_of_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(0.2, 1, n)
    assert wilcoxon_p_value(*column(alone(values))) == stats.wilcoxon(values).pvalue


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


ROOT = Path(__file__).parents[2]
RESAMPLING = Resampling(resamples=2000)
SIDES: tuple[Alternative, ...] = ("two-sided", "greater", "less")


def drawn_sample(n: int, shift: float = 0.0, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).normal(shift, 1, size=n)


def p_of(values: Floats | list[float], side: Alternative = "two-sided") -> float | None:
    return randomisation_p_values(alone(values), Resampling(), side)[0]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("n", [2, 5, 12])
def test_few_queries_are_exact(n: int, side: Alternative) -> None:
    values = drawn_sample(n, 0.3)
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
    values = drawn_sample(60, 0.2)
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
    p_values = np.array(randomisation_p_values(alone(null), RESAMPLING), dtype=np.float64)
    for level in (0.05, 0.1, 0.5):
        assert (p_values <= level).mean() == pytest.approx(level, abs=3.5 * (level / 1000) ** 0.5)
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_clusters_that_share_their_fate_raise_no_false_alarm() -> None:
    rng = np.random.default_rng(8)
    null = np.repeat(rng.normal(size=(30, 500)), 4, axis=0)
    names = [f"d{number:02}" for number in np.repeat(np.arange(30), 4)]
    clustered = randomisation_p_values(units_of(null, np.ones(120), names), RESAMPLING)
    single = randomisation_p_values(alone(null), RESAMPLING)
    assert (np.array(clustered, dtype=np.float64) <= 0.05).mean() < 0.09
    assert (np.array(single, dtype=np.float64) <= 0.05).mean() > 0.25


def test_sums_that_are_equal_on_paper_are_equal() -> None:
    """1/3 + 1/6 = 1/2: half of the patterns reach the sum that was seen, whatever the rounding."""
    values = [1 / 3, 1 / 6, -1 / 2]
    assert p_of(values) == 1.0


@pytest.mark.parametrize("block", [1, 64, 5000])
def test_the_size_of_the_blocks_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    queries = alone(np.column_stack([drawn_sample(70), np.pad(drawn_sample(9), (0, 61))]))
    whole = randomisation_p_values(queries, RESAMPLING)
    monkeypatch.setattr(units, "BLOCK", block)
    assert randomisation_p_values(queries, RESAMPLING) == whole


THREADS = """
import numpy as np
from rag_assets.statistics.paired_tests import randomisation_p_values
from rag_assets.statistics.units import Resampling
from tests.statistics.samples import alone
units = alone(np.random.default_rng(1).random((700, 40)) - 0.49)
p = randomisation_p_values(units, Resampling(resamples=1000))
print(p)
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


@pytest.mark.parametrize(
    ("values", "adjusted"),
    [
        # .01 * 4; .03 * 3 = .09 holds .04 * 2 up; .005 * ... is not lower than the one before it.
        ([0.04, 0.01, 0.03, 0.005], [0.06, 0.03, 0.06, 0.02]),
        ([None, 0.02, None, 0.03], [None, 0.04, None, 0.04]),  # one without p is not counted
        ([], []),
        ([None], [None]),
    ],
)
def test_holm(values: list[float | None], adjusted: list[float | None]) -> None:
    assert holm(values) == [None if p is None else pytest.approx(p) for p in adjusted]


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


DOCUMENT = Path(__file__).parents[2] / "docs" / "statistics.md"
BASE, BETTER = "bm25", "ensemble_rerank"


def read_cells(file: Path, metric: str) -> tuple[list[str], dict[str, pa.Table]]:
    """Read the published table: query ids, and a metric of each retriever at top 3."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines))
    query_ids = [row["query_id"] for row in rows]
    assert len(query_ids) == 321
    return query_ids, {
        name: cell([float(row[f"{name}_{metric}"]) for row in rows], query_ids)
        for name in (BASE, BETTER)
    }


@pytest.mark.real_data
@pytest.mark.parametrize("metric", ["hit_rate", "mrr"])
def test_the_documented_figures(shared_data: Callable[[str], Path], metric: str) -> None:
    query_ids, cells = read_cells(shared_data("seed_doc_qa") / "per_query_top3.csv", metric)
    counts = counting(321, query_ids=query_ids)
    (row,) = comparisons(cells, counts, ("ndcg", 3), Resampling(), [(BASE, BETTER)]).to_pylist()
    shown = [f"{metric}@3", *(f"{row[name]:.4f}" for name in ("mean_a", "mean_b"))]
    shown += [f"{row['difference']:+.4f}", f"[{row['low']:.4f}, {row['high']:.4f}]"]
    shown += [f"{row[name]:.4f}" for name in ("p_randomisation", "p_t", "p_wilcoxon")]
    shown += [f"{row['effect_size']:.3f}", f"{row['detectable']:.4f}"]
    shown += [str(row[name]) for name in ("won", "tied", "lost")]
    assert f"| {' | '.join(shown)} |\n" in DOCUMENT.read_text(encoding="utf-8"), shown
