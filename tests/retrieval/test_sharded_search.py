"""An index in parts, or searched for parts of the queries, gives the hits of the whole."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.models.cache_fill import SparseVector, Vectors
from rag_assets.ordering import Hits
from rag_assets.retrieval.base import Rm3Expansion
from rag_assets.retrieval.dense.splade import ComponentIndex, build_index
from rag_assets.retrieval.dense.vector_index import (
    ShardedIndex,
    Similarity,
    VectorIndex,
    dense_table,
    sharded,
    sparse_table,
)
from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.tfidf import TfIdf
from rag_assets.retrieval.lexical.tokens import AnalysedTexts
from rag_assets.retrieval.spread_search import SpreadSearch, spread

Result = TypeVar("Result")


@dataclass(frozen=True)
class Backwards(Compute):
    """Parts that are done in another process's words, the last one first."""

    parts: int

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        for number, block in reversed(list(enumerate(blocks))):
            yield number, pickle.loads(pickle.dumps(work))(*pickle.loads(pickle.dumps(block)))

    def n_parts(self, n_rows: int) -> int:
        return min(self.parts, n_rows)

    @property
    def n_workers(self) -> int:
        return self.parts


def rows(numbers: np.random.Generator, n: int, distinct: int) -> Vectors:
    """Return ``n`` unit vectors of which only some are different, so that there are ties."""
    few = numbers.normal(size=(distinct, 8)).astype(np.float32)
    few /= np.linalg.norm(few, axis=1, keepdims=True)
    return np.ascontiguousarray(few[numbers.integers(0, distinct, n)])


def searcher(vectors: Vectors, similarity: Similarity, numbers: np.random.Generator) -> VectorIndex:
    ids = tuple(f"c{number}" for number in numbers.permutation(len(vectors)))
    return VectorIndex(ids, (vectors,), similarity)


def query_table(vectors: Vectors) -> pa.Table:
    names = pa.array([f"q{row}" for row in range(len(vectors))])
    numbers = pa.array([0] * len(vectors), pa.int32())
    return dense_table(pa.table({"query_id": names, "variant": numbers}), vectors)


def assert_same(found: list[Hits], expected: list[Hits]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.positions.tolist() == other.positions.tolist()
        assert one.scores.tobytes() == other.scores.tobytes()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 90),
    distinct=st.integers(1, 12),
    parts=st.integers(2, 9),
    depth=st.integers(1, 40),
    similarity=st.sampled_from(["cosine", "dot", "euclidean"]),
)
def test_the_hits_of_the_parts_are_those_of_the_whole(
    seed: int, n: int, distinct: int, parts: int, depth: int, similarity: Similarity
) -> None:
    numbers = np.random.default_rng(seed)
    whole = searcher(rows(numbers, n, distinct), similarity, numbers)
    queries = query_table(rows(numbers, 5, distinct))
    in_parts = ShardedIndex(whole, Backwards(parts), min(parts, n))
    assert_same(in_parts.search(queries, depth, None), whole.search(queries, depth, None))


def test_large_parts_with_a_tie_across_all_of_them() -> None:
    numbers = np.random.default_rng(5)
    whole = searcher(rows(numbers, 4_000, 3), "cosine", numbers)
    queries = query_table(rows(numbers, 7, 3))
    told: list[int] = []
    in_parts = sharded(whole, Backwards(4))
    assert isinstance(in_parts, ShardedIndex)
    assert_same(in_parts.search(queries, 50, told.append), whole.search(queries, 50, None))
    assert told == [1, 3, 5, 7]


@pytest.mark.parametrize("n", [1, 3])
def test_what_is_small_stays_whole(n: int) -> None:
    numbers = np.random.default_rng(5)
    whole = searcher(rows(numbers, n, 3), "cosine", numbers)
    assert sharded(whole, LOCAL) is whole
    assert (sharded(whole, Backwards(2)) is whole) == (n == 1)


WORDS = [f"w{number}" for number in range(30)]
FEEDBACK = Rm3Expansion(type="rm3", documents=3, terms=4)
LEXICAL = {
    "bm25": BM25(type="bm25", analyzer="whitespace"),
    "tfidf": TfIdf(type="tfidf", analyzer="whitespace"),
    "feedback": BM25(type="bm25", analyzer="whitespace", expand=FEEDBACK),
}


def texts(numbers: np.random.Generator, n: int) -> list[str]:
    return [" ".join(numbers.choice(WORDS, size=numbers.integers(1, 9))) for _ in range(n)]


@pytest.mark.parametrize("kind", LEXICAL)
@pytest.mark.parametrize("n_queries", [1, 2, 11])
def test_words_are_searched_for_parts_of_the_queries(
    tmp_path: Path, kind: str, n_queries: int
) -> None:
    numbers = np.random.default_rng(n_queries)
    options, contents = LEXICAL[kind], texts(numbers, 200)
    ids = [f"c{number}" for number in numbers.permutation(len(contents))]
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, compute in ((here, LOCAL), (there, Backwards(3))):
        folder.mkdir()
        analysed = AnalysedTexts.of(ids, contents, "whitespace", compute=compute)
        options.build_of(analysed, folder)
    files = sorted(file.name for file in here.iterdir())
    assert [(there / name).read_bytes() for name in files] == [
        (here / name).read_bytes() for name in files
    ]
    queries, told = texts(numbers, n_queries), list[int]()
    whole, divided = options.open(here), spread(options.open(there), Backwards(3))
    assert isinstance(divided, SpreadSearch)
    assert_same(divided.search(queries, 20, told.append), whole.search(queries, 20, None))
    assert told[-1] == n_queries


def test_components_are_searched_for_parts_of_the_queries(tmp_path: Path) -> None:
    numbers = np.random.default_rng(2)

    def vectors(n: int) -> list[SparseVector]:
        drawn = (np.sort(numbers.choice(40, 4, replace=False)).astype(np.int32) for _ in range(n))
        return [SparseVector(part, numbers.random(4).astype(np.float32)) for part in drawn]

    ids, weights = [f"c{number}" for number in range(200)], vectors(200)
    build_index(ids, ids, tmp_path, None, lambda some: [weights[ids.index(one)] for one in some])
    whole = ComponentIndex.load(tmp_path)
    names = pa.array([f"q{row}" for row in range(7)])
    variants = pa.table({"query_id": names, "variant": pa.array([0] * 7, pa.int32())})
    queries = sparse_table(variants, vectors(7))
    divided = spread(ComponentIndex.load(tmp_path), Backwards(3))
    assert isinstance(divided, SpreadSearch)
    assert_same(divided.search(queries, 20, None), whole.search(queries, 20, None))
    assert spread(whole, LOCAL) is whole
