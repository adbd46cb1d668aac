from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from rag_assets.schemas import COMPARISONS
from rag_assets.statistics.comparisons import all_pairs, comparisons
from rag_assets.statistics.units import Resampling
from tests.statistics.samples import cell, counting

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
