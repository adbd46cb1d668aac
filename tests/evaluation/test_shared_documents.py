"""Queries that share relevant documents: how sure a difference is, and what is said of it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.evaluation.query_facts import with_shared_documents
from rag_assets.statistics.paired_differences import PairedDifferences, shared_evidence
from rag_assets.statistics.shared_evidence import SharedEvidence
from rag_assets.statistics.units import Counted, Floats, Resampling

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "shared_evidence.py"


def counted(documents: list[list[str]] | None, n: int) -> Counted:
    names = tuple(f"q{number:03}" for number in range(n))
    own = None if documents is None else tuple(documents)
    return Counted("all", names, np.ones(n), names, own)


def test_the_documents_of_queries_that_stand_alone_are_known() -> None:
    counting = pa.table({"query_id": ["a", "b", "c"], "cluster": ["a", "b", "c"]})
    qrels = pa.table(
        {"query_id": ["a", "b", "b", "b"], "document_id": ["x", "y", "x", "z"]}
        | {"grade": [1, 2, 1, 0]}
    )
    assert with_shared_documents(counting, qrels)["documents"].to_pylist() == [
        ["x"],
        ["x", "y"],
        [],
    ]
    declared = counting.set_column(1, "cluster", pa.array(["t", "t", "c"]))
    assert with_shared_documents(declared, qrels) == declared


def test_the_variance_is_that_of_all_pairs_that_share() -> None:
    """Against the sum over a matrix of pairs, where q0 and q2 share with q1 and not directly."""
    documents = [["x"], ["x", "y"], ["y"], ["z"], [], ["z"], ["w"], ["x"]]
    values = np.random.default_rng(0).normal(size=(8, 3))
    values[4, 1] = np.nan
    found = SharedEvidence(documents).variance(values, np.ones(8))
    share = np.array([[bool({*a} & {*b}) for b in documents] for a in documents], dtype=float)
    np.fill_diagonal(share, 1)
    for number in range(3):
        there = ~np.isnan(values[:, number])
        n, m = int(there.sum()), share[np.ix_(there, there)]
        demean = np.eye(n) - 1 / n
        e, trace = demean @ values[there, number], np.trace(m @ demean)
        assert found.ratio[number] == pytest.approx((e @ m @ e / trace) / (e @ e / (n - 1)))
        assert found.freedom[number] == pytest.approx(trace**2 / np.trace(m @ demean @ m @ demean))


def test_groups_that_share_all_are_so_many_observations() -> None:
    evidence = SharedEvidence([[f"d{number % 12}"] for number in range(72)])
    assert evidence.freedom() == pytest.approx(11)
    assert (evidence.caveat(), evidence.is_exhausted) == (None, False)


@pytest.mark.parametrize(
    ("n", "documents", "words", "is_exhausted"),
    [
        (59, 30, "59 questions, some of which share documents, are fewer than 60", False),
        (80, 4, "so few documents that they weigh like 4; only questions about other", True),
        (80, 1, "all 80 questions share documents, so this says nothing of questions", True),
    ],
)
def test_what_limits_a_claim(n: int, documents: int, words: str, is_exhausted: bool) -> None:
    evidence = SharedEvidence([[f"d{number % documents}"] for number in range(n)])
    assert words in str(evidence.caveat())
    assert evidence.is_exhausted == is_exhausted


def test_p_and_interval_allow_for_what_is_shared() -> None:
    """Ten questions of a document do the same: they are ten documents, not a hundred questions."""
    random = np.random.default_rng(3)
    of_documents: Floats = random.normal(0.6, 1, 10)
    values = np.repeat(of_documents, 10)[:, None] + random.normal(0, 0.1, (100, 1))
    documents = [[f"d{number // 10}"] for number in range(100)]
    alone, ours = (PairedDifferences(counted(own, 100), values) for own in (None, documents))
    p, allowed = (one.p_values(Resampling())[0] for one in (alone, ours))
    assert p is not None
    assert allowed is not None
    assert p < 0.01 < 0.05 < allowed
    assert alone.inflations(0.95) == [1.0]
    assert ours.inflations(0.95)[0] > 9
    assert shared_evidence(counted([["a"], ["b"]], 2)) is None


def test_what_wins_every_question_is_shown_however_many_share_documents() -> None:
    values = np.concatenate([np.full(82, 0.3), np.zeros(11)])[:, None]
    documents = [["popular", f"d{number}"] if number % 2 else ["popular"] for number in range(93)]
    (p,) = PairedDifferences(counted(documents, 93), values).p_values(Resampling())
    assert p == 2 * 2.0**-82
    values[-1] = -0.01
    (p,) = PairedDifferences(counted(documents, 93), values).p_values(Resampling())
    assert p is not None
    assert p > 1e-5


@pytest.mark.parametrize("name", ["cranfield", "made"])
def test_false_alarms_are_few_and_a_difference_is_found(name: str) -> None:
    benchmark: dict[str, Any] = runpy.run_path(str(BENCHMARK))
    if name == "cranfield" and not benchmark["CRANFIELD"].exists():
        pytest.skip("there is no Cranfield collection here")
    documents = benchmark[name]()[:93]
    for effect, true, least, most in ((0, 0, 0, 0.07), (1, 0, 0, 0.07), (0, 0.3, 0.72, 1)):
        values = benchmark["differences"](documents, effect, true, 500)
        alone, ours = benchmark["found"](documents, values)
        assert least <= ours <= most
        assert ours <= alone
