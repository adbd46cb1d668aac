"""Agreement of a judge with people: published examples, golden numbers, and the edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from rag_assets.statistics.agreement import agreement, order_agreement
from rag_assets.statistics.intervals import wilson
from rag_assets.statistics.units import Resampling

Floats = npt.NDArray[np.float64]
NAN = np.nan

SKEWED = np.array([[5, 5], [5, 85]])
BALANCED = np.array([[45, 5], [5, 45]])


def ratings(table: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Labels and verdicts that fill a table."""
    rows, columns = np.indices(table.shape)
    return (
        np.repeat(rows.ravel(), table.ravel()).astype(np.float64),
        np.repeat(columns.ravel(), table.ravel()).astype(np.float64),
    )


@pytest.mark.parametrize(
    ("table", "kappa", "ac1"), [(SKEWED, 4 / 9, 0.72 / 0.82), (BALANCED, 0.8, 0.8)]
)
def test_the_same_agreement_is_worth_less_where_one_class_is_rare(
    table: npt.NDArray[np.int64], kappa: float, ac1: float
) -> None:
    found = agreement(*ratings(table))
    np.testing.assert_array_equal(found.table, table)
    assert found.agreed.value == pytest.approx(0.9)
    assert found.kappa == pytest.approx(kappa, abs=1e-12)
    assert found.weighted_kappa == pytest.approx(kappa, abs=1e-12)
    assert found.ac1 == pytest.approx(ac1, abs=1e-12)


def test_rates_with_their_intervals() -> None:
    found = agreement(*ratings(np.array([[17, 3], [8, 72]])))
    assert found.sensitivity == (0.9, *wilson(0.9, 80), 80)
    assert found.specificity == (0.85, *wilson(0.85, 20), 20)
    assert found.agreed == (0.89, *wilson(0.89, 100), 100)


def test_grades() -> None:
    """Grade 2 is the lowest that is relevant: rates are of the table cut there."""
    table = np.array([[30, 5, 1, 0], [6, 20, 4, 1], [0, 5, 12, 3], [0, 1, 2, 10]])
    found = agreement(*ratings(table), n_grades=4, positive_from=2)
    np.testing.assert_array_equal(found.table, table)
    assert found.sensitivity.value == pytest.approx(27 / 33)
    assert found.specificity.value == pytest.approx(61 / 67)
    shares = table / 100
    apart = (np.arange(4)[:, None] - np.arange(4)) ** 2
    by_chance = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    weighted = 1 - (apart * shares).sum() / (apart * by_chance).sum()
    plain = (shares.trace() - by_chance.trace()) / (1 - by_chance.trace())
    assert found.weighted_kappa == pytest.approx(weighted)
    assert found.kappa == pytest.approx(plain)
    assert weighted > plain


def test_missing_verdicts_are_counted_and_never_0() -> None:
    found = agreement(np.array([0.0, 1.0, 1.0]), np.array([NAN, 1.0, NAN]))
    assert found.n_missing == 2
    assert found.table.tolist() == [[0, 0], [0, 1]]
    assert (found.specificity.value, found.specificity.low, found.specificity.high) == (None, 0, 1)


def test_nothing_to_compare() -> None:
    found = agreement(np.array([]), np.array([]))
    assert (found.kappa, found.weighted_kappa, found.ac1, found.agreed.value) == (None,) * 4
    always_yes = agreement(np.ones(9), np.ones(9))
    assert always_yes.kappa is None
    assert always_yes.ac1 == 1


def graded(n: int, qualities: Floats, noise: float, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, qualities.size)) < qualities).astype(np.float64)
    flips = rng.random(labels.shape) < noise
    return labels, np.where(flips, 1 - labels, labels)


def test_tau_equals_scipys_and_its_interval_holds_it() -> None:
    labels, verdicts = graded(300, np.linspace(0.4, 0.8, 9), 0.2, 0)
    found = order_agreement(labels, verdicts, Resampling(resamples=500), clusters=None)
    means = labels.mean(axis=0), verdicts.mean(axis=0)
    assert found.tau == pytest.approx(stats.kendalltau(*means).statistic)
    assert found.tau is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.tau < found.high <= 1
    best = np.sort(np.argsort(-means[0])[:5])
    assert found.top == tuple(best)
    top = stats.kendalltau(means[0][best], means[1][best]).statistic
    assert found.tau_top == pytest.approx(top)


def test_a_high_tau_hides_what_the_judge_says_of_the_best() -> None:
    """Four bad systems in order, and four good ones upside down."""
    qualities = np.array([0.05, 0.1, 0.15, 0.2, 0.70, 0.78, 0.86, 0.94])
    labels, _ = graded(2000, qualities, 0.0, 1)
    _, verdicts = graded(2000, np.concatenate([qualities[:4], qualities[:3:-1]]), 0.0, 2)
    found = order_agreement(labels, verdicts, Resampling(resamples=200), clusters=None)
    assert found.top == (4, 5, 6, 7)
    assert (found.tau_top, found.low_top, found.high_top) == (-1, -1, -1)
    assert found.tau == pytest.approx((28 - 2 * 6) / 28)
    assert found.same_winner == 0


def test_whole_clusters_are_drawn() -> None:
    """Each question ten times over is no more evidence."""
    labels, verdicts = graded(40, np.linspace(0.4, 0.8, 5), 0.2, 4)
    many = np.repeat(labels, 10, axis=0), np.repeat(verdicts, 10, axis=0)
    names = [f"c{number:02}" for number in np.repeat(np.arange(40), 10)]
    resampling = Resampling(resamples=400)
    alone = order_agreement(labels, verdicts, resampling, clusters=None)
    assert order_agreement(*many, resampling, clusters=names) == alone
    narrower = order_agreement(*many, resampling, clusters=None)
    assert narrower.low is not None
    assert alone.low is not None
    assert narrower.low > alone.low
