from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import DataError, UsageError
from rag_assets.ordering import best_above_zero, best_of_each, byte_order_ranks, top_k

TIED_SCORES = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0])
ITEMS = st.dictionaries(st.text(min_size=1, max_size=3), TIED_SCORES, max_size=200)


def naive_order(items: dict[str, float], k: int, above: float | None) -> list[str]:
    kept = [i for i in items if above is None or items[i] > above]
    return sorted(kept, key=lambda i: (items[i], i.encode()), reverse=True)[:k]


@given(ITEMS, st.integers(1, 300), st.sampled_from([None, 0.0, 0.25, 2.0]))
def test_top_k_is_the_naive_sort_cut_at_k(
    items: dict[str, float], k: int, above: float | None
) -> None:
    ids = list(items)
    scores = np.array([items[i] for i in ids])
    best = top_k(scores, byte_order_ranks(ids), k, above=above)
    assert [ids[i] for i in best] == naive_order(items, k, above)


@given(st.integers(1, 20), st.sampled_from([None, 0.0]), st.randoms(use_true_random=False))
def test_top_k_of_many_items_is_the_naive_sort(k: int, above: float | None, random: object) -> None:
    seed = random.getrandbits(32)  # type: ignore[attr-defined]
    scores = np.random.default_rng(seed).integers(-50, 50, 3000) / 8.0
    ids = [f"d{(i * 7919) % 3000}" for i in range(3000)]
    best = top_k(scores, byte_order_ranks(ids), k, above=above)
    items = dict(zip(ids, scores.tolist(), strict=True))
    assert [ids[i] for i in best] == naive_order(items, k, above)


@given(st.integers(0, 9), st.integers(0, 300), st.integers(1, 320), st.integers(0, 2**32 - 1))
def test_the_best_of_each_row_are_those_of_the_row_alone(
    n_rows: int, n: int, k: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(-4, random.integers(2, 60), (n_rows, n)) / 8.0
    ids_rank = random.permutation(n)
    together = best_of_each(scores, ids_rank, k)
    alone = [best_above_zero(row, ids_rank, k) for row in scores]
    for hits, expected in zip(together, alone, strict=True):
        assert hits.positions.tolist() == expected.positions.tolist()
        assert hits.scores.tobytes() == expected.scores.tobytes()


def test_tie_at_the_cut_is_decided_by_id() -> None:
    ids = [f"d{i:04d}" for i in range(1000)]
    best = top_k(np.ones(1000), byte_order_ranks(ids), 3)
    assert [ids[i] for i in best] == ["d0999", "d0998", "d0997"]


def test_ids_are_compared_by_utf8_bytes() -> None:
    ids = ["Z", "a", "\u00e9", "\uffee", "\U0001f600", "a\x00", "10", "9", ""]
    ranks = byte_order_ranks(ids)
    assert [ids[i] for i in np.argsort(ranks)] == sorted(ids, key=lambda i: i.encode("utf-8"))


def test_float32_scores_infinities_and_nothing_to_rank() -> None:
    scores = np.array([1, np.inf, -np.inf, 2], dtype=np.float32)
    assert top_k(scores, byte_order_ranks(["a", "b", "c", "d"]), 9).tolist() == [1, 3, 0, 2]
    assert top_k(np.empty(0), byte_order_ranks([]), 5).tolist() == []


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(DataError, match="score of item 1 is NaN"):
        top_k(np.array([1.0, np.nan, 0.0]), byte_order_ranks(["a", "b", "c"]), 1)
    with pytest.raises(UsageError, match="k is 0"):
        best_of_each(np.ones((1, 2)), byte_order_ranks(["a", "b"]), 0)
    with pytest.raises(UsageError, match="k is 0"):
        top_k(np.ones(2), byte_order_ranks(["a", "b"]), 0)
    with pytest.raises(DataError, match="id 'b' occurs twice"):
        byte_order_ranks(["b", "a", "b"])
