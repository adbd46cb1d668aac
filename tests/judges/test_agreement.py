"""Agreement of a judge with people: published examples, golden numbers, and the edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from rag_assets.analysis.judged import people_lines
from rag_assets.statistics.agreement import agreement
from rag_assets.statistics.intervals import wilson

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


def test_who_agrees_as_chance_does_is_not_below_it() -> None:
    row = agreement(np.ones(9), np.ones(9))._asdict()
    row |= {name: row[name]._asdict() for name in ("sensitivity", "specificity")}
    for youden, said in ((0.0, "FAIL, no better than"), (-0.5, "FAIL, 0.50 below")):
        *_, last = people_lines({"agreement": row, "youden": youden})
        assert last == f"agreement: {said} chance"


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
