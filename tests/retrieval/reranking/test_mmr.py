"""Maximal marginal relevance, and late interaction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.models.cache_fill import TokenVectors, Vectors, to_unit_rows
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.diversity import MMR, mmr_order
from rag_assets.retrieval.reranking.local import NOTHING, maxsim
from rag_assets.retrieval.workspace import Workspace

QUERY = np.array([1.0, 0.0], dtype=np.float32)
DOCUMENTS = np.array([[0.8, 0.6], [0.8, 0.6], [0.6, -0.8], [0.0, 1.0]], dtype=np.float32)
IDS = ["a", "b", "c", "d"]


def order(lambda_: float, ids: Sequence[str] = IDS) -> list[str]:
    return [ids[position] for position in mmr_order(QUERY, DOCUMENTS, ids, lambda_)]


def test_the_worked_example() -> None:
    # Cosines to the query: a .8, b .8, c .6, d 0. First: the best is .8 twice; b is the higher id.
    # Then .5 * cosine - .5 * likeness to b: a .5*.8 - .5*1 = -.1; d .5*0 - .5*.6 = -.3;
    # c .5*.6 - .5*(.8*.6 - .6*.8 = 0) = .3: c is next.
    # Then the nearest of b, c: a still 1 -> -.1; d max(.6, -.8) = .6 -> -.3: a, d.
    assert order(0.5) == ["b", "c", "a", "d"]


def test_lambda_one_is_the_order_by_cosine_and_zero_that_of_the_most_unlike() -> None:
    assert order(1.0) == ["b", "a", "c", "d"]
    # After b: likeness a 1, c 0, d .6: c. After c: a max(1, 0) = 1, d max(.6, -.8) = .6: d.
    assert order(0.0) == ["b", "c", "d", "a"]


@given(st.integers(0, 2**32 - 1), st.integers(0, 8), st.floats(0, 1))
def test_every_choice_is_the_best_of_those_left(seed: int, n: int, lambda_: float) -> None:
    drawn = np.random.default_rng(seed).normal(size=(n + 1, 3))
    unit: Vectors = to_unit_rows(drawn, str)
    chosen = mmr_order(unit[0], unit[1:], [str(i) for i in range(n)], lambda_).tolist()
    assert sorted(chosen) == list(range(n))
    cosines = unit.astype(np.float64) @ unit.astype(np.float64).T

    def value(item: int, before: list[int]) -> float:
        likest = max((cosines[item + 1, other + 1] for other in before), default=0.0)
        return float(lambda_ * cosines[item + 1, 0] - (1 - lambda_) * likest)

    for place, item in enumerate(chosen):
        best = max(value(other, chosen[:place]) for other in chosen[place:])
        assert math.isclose(value(item, chosen[:place]), best, abs_tol=1e-12)


def test_scores_are_one_through_the_rank(tmp_path: Path) -> None:
    texts = ["The harbour closes.", "The harbour closes.", "A dog needs a ticket.", ""]
    one = Candidates("q", "when does the harbour close", IDS, texts, np.zeros(4))
    mmr = MMR.model_validate({"type": "mmr", "input": "bm25"})
    (scores,) = mmr.scores_of([one], Workspace(tmp_path))
    assert sorted(scores.tolist(), reverse=True) == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert scores[1] == 1.0  # of two that are the same, the higher id
    assert scores[0] < 1 / 2
    (again,) = mmr.scores_of([one], Workspace(tmp_path))
    assert again.tobytes() == scores.tobytes()


TOKENS_OF = [
    "The southern harbour closes when the wind exceeds 25 metres per second.",
    "A dog needs a ticket of 10 crowns.",
    "",
]


def vectors(*rows: list[float]) -> TokenVectors:
    return np.array(rows, dtype=np.float16).reshape(len(rows), -1)


def test_the_mean_of_the_best_cosines() -> None:
    query = vectors([1, 0], [0, 1])
    document = vectors([0.6, 0.8], [1, 0], [-1, 0])
    # First token: max(.6, 1, -1) = 1; second: max(.8, 0, 0) = .8 (half precision: .7998).
    assert maxsim(query, document) == pytest.approx((1 + 0.8) / 2, abs=1e-3)


def test_nothing_to_compare_scores_below_every_cosine() -> None:
    some = vectors([1, 0])
    none = np.empty((0, 2), dtype=np.float16)
    assert maxsim(some, none) == maxsim(none, some) == NOTHING
    assert maxsim(some, vectors([-1, 0])) >= NOTHING
