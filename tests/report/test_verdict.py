from __future__ import annotations

from typing import Any

import pytest

from rag_assets.report.comparisons import verdict
from rag_assets.report.formats import p_text
from rag_assets.statistics.comparisons import is_significant

ROW: dict[str, Any] = {
    "retriever_a": "bm25",
    "retriever_b": "hybrid",
    "metric": "ndcg",
    "top_k": 10,
    "n": 216,
    "n_clusters": 216,
    "difference": 0.0145,
    "low": 0.003,
    "high": 0.026,
    "p_randomisation": 0.012,
    "p_adjusted": 0.024,
    "won": 49,
    "lost": 33,
    "detectable": 0.0305,
}


def test_a_shown_difference() -> None:
    assert verdict(ROW, 3) == (
        "hybrid is better than bm25 on ndcg@10 by 0.0145 [0.0030, 0.0260], "
        "p = 0.0120 (Holm over 3 pairs 0.0240)"
    )


def test_the_better_one_may_be_the_first() -> None:
    turned = {**ROW, "difference": -0.0145, "low": -0.026, "high": -0.003}
    assert verdict(turned, 1) == (
        "bm25 is better than hybrid on ndcg@10 by 0.0145 [0.0030, 0.0260], p = 0.0120"
    )


def test_of_a_count_of_mistakes_the_lower_one_is_better() -> None:
    assert verdict({**ROW, "metric": "fp(rel=2)"}, 1) == (
        "bm25 is better than hybrid on fp(rel=2)@10 by 0.0145 [0.0030, 0.0260], p = 0.0120"
    )


def test_a_difference_that_only_the_uncorrected_p_shows_is_not_claimed() -> None:
    assert verdict({**ROW, "p_adjusted": 0.06}, 5) == (
        "no difference shown between bm25 and hybrid on ndcg@10: hybrid is ahead by "
        "0.0145 [0.0030, 0.0260], p = 0.0120 (Holm over 5 pairs 0.0600); "
        "216 queries can show 0.0305 or more"
    )


def test_clusters_are_named() -> None:
    row = {**ROW, "p_adjusted": None, "p_randomisation": 0.5, "n_clusters": 40}
    assert verdict(row, 0).endswith(
        ", p = 0.5000; 216 queries in 40 clusters can show 0.0305 or more"
    )


def test_a_claim_that_is_limited_says_so() -> None:
    assert verdict({**ROW, "n_clusters": 40}, 1).endswith("p = 0.0120; 216 queries in 40 clusters")
    assert verdict(ROW, 1, "they depend").endswith("p = 0.0120; but they depend")
    unsure = {**ROW, "p_adjusted": 0.5}
    assert verdict(unsure, 1, "they depend") == verdict(unsure, 1), "nothing is claimed"


def test_what_cannot_be_said_is_not_said() -> None:
    row = {**ROW, "n": 1, "p_adjusted": 1.0, "low": None, "high": None, "detectable": None}
    assert verdict(row, 1) == (
        "no difference shown between bm25 and hybrid on ndcg@10: hybrid is ahead by 0.0145, "
        "p = 0.0120"
    )
    assert verdict({**ROW, "difference": None}, 3) == (
        "nothing to compare: bm25 and hybrid have no query with a value of ndcg@10 in common"
    )
    assert verdict({**ROW, "difference": 0.0, "won": 0, "lost": 0}, 3) == (
        "hybrid and bm25 do the same on every query by ndcg@10 (216 queries)"
    )


@pytest.mark.parametrize(
    ("p", "adjusted", "shown"),
    [(0.01, None, True), (0.05, None, False), (0.01, 0.05, False), (None, None, False)],
)
def test_only_p_after_holm_decides(p: float | None, adjusted: float | None, shown: bool) -> None:
    assert is_significant({"p_randomisation": p, "p_adjusted": adjusted}) is shown


def test_p_is_never_written_as_zero() -> None:
    assert [p_text(p) for p in (None, 1.0, 0.0001, 0.00004)] == ["-", "1.0000", "0.0001", "4.0e-05"]
