from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import StoreError, UsageError
from rag_assets.models.token_encoder import maxsim
from rag_assets.models.vector_cache import TokenVectors
from rag_assets.retrieval.dense import late_interaction
from rag_assets.retrieval.dense.late_interaction import TokenIndex
from rag_assets.retrieval.dense.query_vectors import token_table, token_vectors

DIMENSION = 8


def drawn(seed: int, lengths: Sequence[int]) -> list[TokenVectors]:
    """Return as many random unit vectors a text as ``lengths`` says."""
    numbers = np.random.default_rng(seed)
    rows = [numbers.normal(size=(length, DIMENSION)) for length in lengths]
    return [(r / np.linalg.norm(r, axis=1, keepdims=True)).astype(np.float16) for r in rows]


def made(vectors: Sequence[TokenVectors], folder: Path) -> TokenIndex:
    folder.mkdir(exist_ok=True)
    late_interaction.save_tokens([f"c{row:03}" for row in range(len(vectors))], vectors, folder)
    return TokenIndex.load(folder)


@given(
    seed=st.integers(0, 1_000),
    chunks=st.lists(st.integers(0, 5), min_size=1, max_size=20),
    queries=st.lists(st.integers(0, 4), min_size=1, max_size=5),
    k=st.integers(1, 25),
    at_once=st.integers(1, 12),
)
def test_it_finds_what_scoring_every_pair_finds(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    chunks: list[int],
    queries: list[int],
    k: int,
    at_once: int,
) -> None:
    vectors, asked = drawn(seed, chunks), drawn(seed + 1, queries)
    vectors += vectors[:2]  # equal chunks score equally, wherever they stand
    index = made(vectors, tmp_path_factory.mktemp("index"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late_interaction, "TOKENS_AT_ONCE", at_once)
        patch.setattr(late_interaction, "QUERIES_AT_ONCE", 2)
        found = index.nearest(asked, k)
    for query, hits in zip(asked, found, strict=True):
        scored = [
            (maxsim(query, own), f"c{row:03}", row)
            for row, own in enumerate(vectors)
            if len(own) and len(query)
        ]
        expected = sorted(scored, reverse=True)[:k]
        assert hits.positions.tolist() == [row for _, _, row in expected]
        assert hits.scores.tolist() == [score for score, _, _ in expected]


def test_a_part_is_searched_as_the_whole(tmp_path: Path) -> None:
    index = made(drawn(0, [3, 0, 2, 4]), tmp_path)
    (query,) = drawn(1, [3])
    part = index.restricted_to(np.array([1, 3, 0]))
    assert part.chunk_ids == ("c001", "c003", "c000")
    (hits,), (whole,) = (one.nearest([query], 9) for one in (part, index))
    of_whole = dict(zip(whole.positions.tolist(), whole.scores.tolist(), strict=True))
    assert dict(zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)) == {
        1: of_whole[3],
        2: of_whole[0],
    }


def test_an_index_is_ordered_by_id_and_holds_half_precision(tmp_path: Path) -> None:
    one, other = drawn(0, [2, 3])
    facts = late_interaction.save_tokens(["b", "a"], [one, other], tmp_path)
    assert facts == {"chunks": 2, "bytes": 5 * DIMENSION * 2, "mean_tokens": 2.5}
    index = TokenIndex.load(tmp_path)
    assert index.chunk_ids == ("a", "b")
    np.testing.assert_array_equal(index.of(0), other)
    np.testing.assert_array_equal(index.of(1), one)


def test_nothing_is_searched_for_nothing(tmp_path: Path) -> None:
    index = made([], tmp_path)
    assert [len(hits.positions) for hits in index.nearest(drawn(0, [2]), 3)] == [0]
    assert index.nearest([], 3) == []
    with pytest.raises(UsageError, match="k is 0"):
        index.nearest([], 0)


def test_queries_come_back_from_their_table() -> None:
    vectors = drawn(0, [3, 0, 1])
    variants = pa.table({"query_id": ["a", "b", "c"], "variant": pa.array([0, 0, 0], pa.int32())})
    table = token_table(variants, vectors)
    for own, again in zip(vectors, token_vectors(table, DIMENSION), strict=True):
        np.testing.assert_array_equal(own, again)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        TokenIndex.load(tmp_path)
    made(drawn(0, [1, 2]), tmp_path)
    np.save(tmp_path / "first_tokens.npy", np.array([0, 1]))
    with pytest.raises(StoreError, match="is damaged: 2 ids, 2 starts"):
        TokenIndex.load(tmp_path)
