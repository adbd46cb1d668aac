from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, UsageError
from rag_assets.retrieval.dense import similarity_search
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.dense.search import MARGIN
from rag_assets.retrieval.dense.similarity_search import search, searchable

Measure = Literal["dot", "euclidean"]


def naive(index: FlatIndex, query: np.ndarray, k: int, measure: Measure) -> list[tuple[str, float]]:
    """The definition, one number after the other."""
    found = []
    for name, row in zip(index.chunk_ids, index.vectors, strict=True):
        pairs = [(float(x), float(q)) for x, q in zip(row, query, strict=True)]
        if measure == "dot":
            score = float(np.array([x * q for x, q in pairs]).sum())
        else:
            score = -math.sqrt(float(np.array([(x - q) * (x - q) for x, q in pairs]).sum()))
        found.append((name, score))
    return sorted(found, key=lambda pair: (pair[1], pair[0]), reverse=True)[:k]


def hits(index: FlatIndex, query: np.ndarray, k: int, measure: Measure) -> list[tuple[str, float]]:
    (found,) = search(searchable(index, measure), query[None, :], k)
    names = [index.chunk_ids[position] for position in found.positions]
    return list(zip(names, found.scores.tolist(), strict=True))


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e3, 1e9]),
    shift=st.sampled_from([0.0, 1.0, 1e4]),
    nearly_equal=st.booleans(),
    measure=st.sampled_from(["dot", "euclidean"]),
)
def test_it_is_the_definition(
    seed: int, scale: float, shift: float, nearly_equal: bool, measure: Measure
) -> None:
    random = np.random.default_rng(seed)
    base = random.normal(size=(1, 5)) if nearly_equal else random.normal(size=(90, 5))
    rows = base + random.normal(size=(90, 5)) * (1e-6 if nearly_equal else 1)
    vectors = ((rows + shift) * scale).astype(np.float32)
    vectors[10:20] = vectors[30]
    vectors[40] = 0
    index = FlatIndex(tuple(f"c{number}" for number in random.permutation(90)), vectors)
    query = ((random.normal(size=5) + shift) * scale).astype(np.float32)
    for k in (1, 7, 89, 200):
        assert hits(index, query, k, measure) == naive(index, query, k, measure)


@pytest.mark.parametrize("measure", ["dot", "euclidean"])
def test_a_tie_beyond_the_candidates_is_broken_by_id(measure: Measure) -> None:
    count = 4 * MARGIN
    vectors = np.full((count, 3), 2.5, dtype=np.float32)
    index = FlatIndex(tuple(f"c{number:03}" for number in range(count)), vectors)
    found = hits(index, np.array([1, 0.1, 3], dtype=np.float32), 2, measure)
    assert [name for name, _ in found] == [f"c{count - 1}", f"c{count - 2}"]


def test_length_decides_the_inner_product_and_not_the_distance() -> None:
    vectors = np.array([[10, 0], [1, 0.1], [0, 0]], dtype=np.float32)
    index, query = FlatIndex(("long", "near", "zero"), vectors), np.array([1, 0], np.float32)
    assert [name for name, _ in hits(index, query, 3, "dot")] == ["long", "near", "zero"]
    assert [name for name, _ in hits(index, query, 3, "euclidean")] == ["near", "zero", "long"]
    assert hits(index, query, 3, "euclidean")[2] == ("long", -9.0)


def test_blocks_change_nothing() -> None:
    random = np.random.default_rng(3)
    vectors = random.normal(size=(200, 8)).astype(np.float32) * 7
    space = searchable(FlatIndex(tuple(map(str, range(200))), vectors), "euclidean")
    queries = random.normal(size=(20, 8)).astype(np.float32)
    one, other = search(space, queries, 5, block=3), search(space, queries, 5)
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.positions, b.positions)
        assert np.array_equal(a.scores, b.scores)


def test_what_is_refused() -> None:
    index = FlatIndex(("a", "b"), np.array([[1, 0], [0, 1]], dtype=np.float32))
    space = searchable(index, "dot")
    with pytest.raises(UsageError, match="k is 0"):
        search(space, index.vectors, 0)
    with pytest.raises(DataError, match="the index has dimension 2"):
        search(space, np.ones((1, 3), np.float32), 1)
    with pytest.raises(DataError, match=r"vector of query 0 has length nan; .* at most 1e18"):
        search(space, np.array([[np.nan, 1]], np.float32), 1)
    with pytest.raises(DataError, match=r"vector of chunk 'b' has length inf|chunk 'b' has len"):
        searchable(FlatIndex(("a", "b"), np.array([[1, 0], [1e19, 0]], np.float32)), "dot")
    assert similarity_search.search(space, np.empty((0, 2), np.float32), 3) == []
