from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.ordering import Hits
from rag_assets.retrieval.dense.hnsw import GRAPH_FILE, HnswIndex, save_graph
from rag_assets.retrieval.dense.vector_index import Similarity

MEASURES: tuple[Similarity, ...] = ("dot", "euclidean")
every_measure = pytest.mark.parametrize("measure", MEASURES)


def made(count: int, dimension: int = 24, seed: int = 0) -> np.ndarray:
    """Vectors around 40 centres, as those of texts are."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, dimension))
    rows = centres[random.integers(0, 40, size=count)] + random.normal(size=(count, dimension))
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit.astype(np.float32)


def names(count: int) -> list[str]:
    return [f"c{number:05}" for number in range(count)]


def indexed(
    folder: Path,
    vectors: np.ndarray,
    measure: Similarity,
    ids: list[str] | None = None,
    *,
    m: int = 16,
    ef_construction: int = 100,
) -> HnswIndex:
    folder.mkdir(parents=True, exist_ok=True)
    ids = ids or names(len(vectors))
    save_graph(ids, vectors, folder, similarity=measure, m=m, ef_construction=ef_construction)
    return HnswIndex.load(folder, measure, 10)


def found(index: HnswIndex, hits: Hits) -> list[tuple[str, float]]:
    ids = [index.chunk_ids[position] for position in hits.positions]
    return list(zip(ids, hits.scores.tolist(), strict=True))


def recall(index: HnswIndex, queries: np.ndarray, k: int, ef_search: int) -> float:
    """Share of the exact best k that the graph leads to."""
    exact = index.exact().nearest(queries, k)
    approximate = replace(index, ef_search=ef_search).nearest(queries, k)
    shared = [
        len(set(a.positions.tolist()) & set(b.positions.tolist()))
        for a, b in zip(exact, approximate, strict=True)
    ]
    return sum(shared) / (k * len(queries))


@every_measure
def test_a_wide_search_finds_what_an_exact_one_finds(tmp_path: Path, measure: Similarity) -> None:
    index = indexed(tmp_path, made(3_000), measure)
    queries = made(100, seed=1)
    wide, narrow = (recall(index, queries, 10, ef) for ef in (256, 10))
    assert wide > 0.99
    assert 0.5 < narrow < wide


def test_a_poor_graph_misses_more(tmp_path: Path) -> None:
    vectors, queries = made(3_000), made(100, seed=1)
    poor = indexed(tmp_path / "poor", vectors, "dot", m=2, ef_construction=4)
    good = indexed(tmp_path / "good", vectors, "dot", m=16, ef_construction=100)
    assert recall(poor, queries, 10, 20) < recall(good, queries, 10, 20) - 0.1


@every_measure
def test_few_chunks_are_all_found_with_exact_scores(tmp_path: Path, measure: Similarity) -> None:
    vectors = made(90)
    vectors[10:20] = vectors[30]  # equal chunks: the higher id first
    index = indexed(tmp_path, vectors * 3, measure)
    queries = made(20, seed=2)
    exact = index.exact().nearest(queries, 25)
    for one, other in zip(replace(index, ef_search=200).nearest(queries, 25), exact, strict=True):
        assert found(index, one) == found(index, other)


@every_measure
def test_the_order_of_rows_changes_no_byte(tmp_path: Path, measure: Similarity) -> None:
    vectors, ids = made(500), names(500)
    mixed = np.random.default_rng(5).permutation(500)
    indexed(tmp_path / "one", vectors, measure, ids)
    indexed(tmp_path / "other", vectors[mixed], measure, [ids[row] for row in mixed])
    for file in (GRAPH_FILE, "vectors.npy", "chunk_ids.json"):
        one, other = (tmp_path / name / file for name in ("one", "other"))
        assert one.read_bytes() == other.read_bytes()


def test_a_shorter_list_is_the_beginning_of_a_longer_one(tmp_path: Path) -> None:
    index = indexed(tmp_path, made(2_000), "dot", m=4, ef_construction=8)
    queries = made(50, seed=3)
    longest = replace(index, ef_search=40).nearest(queries, 500)
    assert {len(hits.positions) for hits in longest} == {40}
    for k in (1, 5, 39):
        for one, whole in zip(
            replace(index, ef_search=40).nearest(queries, k), longest, strict=True
        ):
            assert found(index, one) == found(index, whole)[:k]


def test_nothing_to_search(tmp_path: Path) -> None:
    index = indexed(tmp_path, np.empty((0, 0), np.float32), "dot")
    (hits,) = replace(index, ef_search=10).nearest(made(1), 5)
    assert hits.positions.size == 0
    assert indexed(tmp_path / "some", made(5), "dot").nearest(made(0), 5) == []


def test_what_is_refused(tmp_path: Path) -> None:
    index = indexed(tmp_path / "a", made(5), "dot")
    with pytest.raises(UsageError, match="k is 0"):
        replace(index, ef_search=10).nearest(made(1), 0)
    with pytest.raises(DataError, match=r"shape \(1, 3\); the index has dimension 24"):
        replace(index, ef_search=10).nearest(made(1, 3), 1)
    vectors = made(3)
    vectors[2, 0] = np.nan
    with pytest.raises(DataError, match="vector of chunk 'c00002' has length nan"):
        indexed(tmp_path / "b", vectors, "dot")


def test_a_damaged_index(tmp_path: Path) -> None:
    indexed(tmp_path, made(5), "dot")
    with pytest.raises(StoreError, match="is damaged: 5 ids, and a graph of 5 chunks"):
        HnswIndex.load(tmp_path, "euclidean", 10)
    (tmp_path / GRAPH_FILE).write_bytes(b"nothing")
    with pytest.raises(StoreError, match=r"hnsw\.faiss cannot be read: "):
        HnswIndex.load(tmp_path, "dot", 10)
    (tmp_path / GRAPH_FILE).unlink()
    with pytest.raises(StoreError, match=r"hnsw\.faiss cannot be read: "):
        HnswIndex.load(tmp_path, "dot", 10)
