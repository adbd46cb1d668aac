"""Exact search of vectors, and the flat index."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, StoreError
from rag_assets.retrieval.dense import vector_index
from rag_assets.retrieval.dense.vector_index import (
    MARGIN,
    Similarity,
    VectorIndex,
    inner_products,
    save_vectors,
    vectors_on_disk,
)


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / lengths, dtype=np.float32)


def naive(index: VectorIndex, query: np.ndarray, k: int) -> list[tuple[str, float]]:
    """All float64 inner products, each row on its own, sorted by (score, id bytes) descending."""
    wide = query.astype(np.float64)
    scores = [float((row.astype(np.float64) * wide).sum()) for row in index.vectors]
    pairs = zip(index.chunk_ids, scores, strict=True)
    return sorted(pairs, key=lambda pair: (pair[1], pair[0].encode()), reverse=True)[:k]


def found(
    index: VectorIndex, queries: np.ndarray, k: int, block: int
) -> list[list[tuple[str, float]]]:
    ranked = []
    for hits in index.nearest(queries, k, block=block):
        ids = [index.chunk_ids[position] for position in hits.positions]
        ranked.append(list(zip(ids, hits.scores.tolist(), strict=True)))
    return ranked


@st.composite
def corpora(draw: st.DrawFn) -> tuple[VectorIndex, np.ndarray]:
    """Few distinct vectors, many duplicates, and near-duplicates that fp32 cannot tell apart."""
    seed = draw(st.integers(0, 2**32 - 1))
    count, distinct = draw(st.integers(1, 300)), draw(st.integers(1, 20))
    dimension = draw(st.sampled_from([1, 2, 3, 17, 64]))
    noise = draw(st.sampled_from([0.0, 0.0, 1e-7, 1e-6, 1e-3]))
    generator = np.random.default_rng(seed)
    base = generator.normal(size=(distinct, dimension)) + 1e-3
    rows = base[generator.integers(0, distinct, count)]
    rows = rows + noise * generator.normal(size=rows.shape)
    ids = [f"{'dßé'[i % 3]}{i}" for i in generator.permutation(count)]
    queries = np.concatenate([base[:3], generator.normal(size=(3, dimension)) + 1e-3])
    return VectorIndex(tuple(ids), unit(rows)), unit(queries)


@settings(max_examples=150, deadline=None)
@given(corpora(), st.integers(1, 60), st.integers(1, 7))
def test_exact_against_naive_float64(
    corpus: tuple[VectorIndex, np.ndarray], k: int, block: int
) -> None:
    index, queries = corpus
    assert found(index, queries, k, block) == [naive(index, query, k) for query in queries]


def test_ties_wider_than_the_margin_are_cut_by_id() -> None:
    count = 10 * MARGIN
    vectors = np.tile(unit(np.ones((1, 48))), (count, 1))
    index = VectorIndex(tuple(f"c{i}" for i in range(count)), vectors)
    (hits,) = index.nearest(vectors[:1], 5)
    expected = sorted(index.chunk_ids, reverse=True)[:5]
    assert [index.chunk_ids[i] for i in hits.positions] == expected
    assert len(set(hits.scores.tolist())) == 1


def test_score_of_a_row_does_not_depend_on_its_place() -> None:
    generator = np.random.default_rng(0)
    row, query = unit(generator.normal(size=(2, 384)))
    tiled = inner_products(np.tile(row, (1003, 1)), query)
    assert set(tiled.tolist()) == set(inner_products(row[None], query).tolist())
    assert tiled.dtype == np.float64


def test_threads_and_blocks_change_nothing() -> None:
    import faiss

    generator = np.random.default_rng(1)
    vectors = unit(generator.normal(size=(3000, 64)))
    vectors[1000:1500] = vectors[0]
    index = VectorIndex(tuple(str(i) for i in range(3000)), vectors)
    queries = unit(np.concatenate([vectors[:5] + 0.01, generator.normal(size=(60, 64))]))
    expected = found(index, queries, 20, 256)
    threads = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(1)
        for block in (1, 19, 64):
            assert found(index, queries, 20, block) == expected
        faiss.omp_set_num_threads(3)
        assert found(index, queries, 20, 9) == expected
    finally:
        faiss.omp_set_num_threads(threads)


def test_settings_of_faiss_are_put_back_even_after_an_error() -> None:
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold, faiss.omp_get_max_threads()
    index = VectorIndex(("a", "b"), np.eye(2, dtype=np.float32))

    def interrupted(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.nearest(np.eye(2, dtype=np.float32), 1, interrupted, block=1)
    assert (faiss.cvar.distance_compute_blas_threshold, faiss.omp_get_max_threads()) == before


def test_k_is_clipped_and_progress_ends_at_the_number_of_queries() -> None:
    index = VectorIndex(("a", "b"), np.eye(2, dtype=np.float32))
    calls: list[int] = []
    hits = index.nearest(np.eye(2, dtype=np.float32), 50, calls.append, block=1)
    assert [len(one.positions) for one in hits] == [2, 2]
    assert calls == [1, 2]
    assert hits[0].positions.tolist() == [0, 1]
    assert hits[0].scores.tolist() == [1.0, 0.0]


def test_empty_index_and_no_queries() -> None:
    empty = VectorIndex((), np.empty((0, 0), dtype=np.float32))
    (hits,) = empty.nearest(np.eye(1, 3, dtype=np.float32), 5)
    assert len(hits.positions) == len(hits.scores) == 0
    index = VectorIndex(("a",), np.eye(1, dtype=np.float32))
    assert index.nearest(np.empty((0, 0), dtype=np.float32), 5) == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (np.array([[np.nan, 0]], dtype=np.float32), "query 0 holds NaN"),
        (np.zeros((1, 2), dtype=np.float32), "query 0 has length 0"),
        (np.ones((1, 2), dtype=np.float32), "query 0 has length 1.41421"),
        (np.eye(1, 3, dtype=np.float32), "the index has dimension 2"),
        (np.eye(1, 2), "they must be float32"),
    ],
)
def test_wrong_query_vectors(query: np.ndarray, problem: str) -> None:
    index = VectorIndex(("a", "b"), np.eye(2, dtype=np.float32))
    with pytest.raises(DataError, match=problem):
        index.nearest(query, 1)


def definition(
    index: VectorIndex, query: np.ndarray, k: int, similarity: Similarity
) -> list[tuple[str, float]]:
    """The definition, one number after the other."""
    found = []
    for name, row in zip(index.chunk_ids, index.vectors, strict=True):
        pairs = [(float(x), float(q)) for x, q in zip(row, query, strict=True)]
        if similarity == "dot":
            score = float(np.array([x * q for x, q in pairs]).sum())
        else:
            score = -math.sqrt(float(np.array([(x - q) * (x - q) for x, q in pairs]).sum()))
        found.append((name, score))
    return sorted(found, key=lambda pair: (pair[1], pair[0]), reverse=True)[:k]


def hits(
    index: VectorIndex, query: np.ndarray, k: int, similarity: Similarity
) -> list[tuple[str, float]]:
    (found,) = replace(index, similarity=similarity).nearest(query[None, :], k)
    names = [index.chunk_ids[position] for position in found.positions]
    return list(zip(names, found.scores.tolist(), strict=True))


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e3, 1e9]),
    shift=st.sampled_from([0.0, 1.0, 1e4]),
    nearly_equal=st.booleans(),
    similarity=st.sampled_from(["dot", "euclidean"]),
)
def test_it_is_the_definition(
    seed: int, scale: float, shift: float, nearly_equal: bool, similarity: Similarity
) -> None:
    random = np.random.default_rng(seed)
    base = random.normal(size=(1, 5)) if nearly_equal else random.normal(size=(90, 5))
    rows = base + random.normal(size=(90, 5)) * (1e-6 if nearly_equal else 1)
    vectors = ((rows + shift) * scale).astype(np.float32)
    vectors[10:20] = vectors[30]
    vectors[40] = 0
    index = VectorIndex(tuple(f"c{number}" for number in random.permutation(90)), vectors)
    query = ((random.normal(size=5) + shift) * scale).astype(np.float32)
    for k in (1, 7, 89, 200):
        assert hits(index, query, k, similarity) == definition(index, query, k, similarity)


@pytest.mark.parametrize("similarity", ["dot", "euclidean"])
def test_a_tie_beyond_the_candidates_is_broken_by_id(similarity: Similarity) -> None:
    count = 4 * MARGIN
    vectors = np.full((count, 3), 2.5, dtype=np.float32)
    index = VectorIndex(tuple(f"c{number:03}" for number in range(count)), vectors)
    found = hits(index, np.array([1, 0.1, 3], dtype=np.float32), 2, similarity)
    assert [name for name, _ in found] == [f"c{count - 1}", f"c{count - 2}"]


def test_length_decides_the_inner_product_and_not_the_distance() -> None:
    vectors = np.array([[10, 0], [1, 0.1], [0, 0]], dtype=np.float32)
    index, query = VectorIndex(("long", "near", "zero"), vectors), np.array([1, 0], np.float32)
    assert [name for name, _ in hits(index, query, 3, "dot")] == ["long", "near", "zero"]
    assert [name for name, _ in hits(index, query, 3, "euclidean")] == ["near", "zero", "long"]
    assert hits(index, query, 3, "euclidean")[2] == ("long", -9.0)


def test_vectors_of_any_length_that_are_refused() -> None:
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    query, space = np.array([[np.nan, 1]], np.float32), VectorIndex(("a", "b"), vectors)
    with pytest.raises(DataError, match=r"vector of query 0 has length nan; .* at most 1e18"):
        replace(space, similarity="dot").nearest(query, 1)
    long = VectorIndex(("a", "b"), np.array([[1, 0], [1e19, 0]], np.float32))
    with pytest.raises(DataError, match=r"vector of chunk 'b' has length inf|chunk 'b' has len"):
        replace(long, similarity="dot").nearest(vectors, 1)


def axes(count: int) -> np.ndarray:
    return np.eye(count, dtype=np.float32)


def test_vectors_that_are_made_on_disk_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    save_vectors(["a", "b"], axes(2), tmp_path / "one")
    # By another name of the same folder.
    made = vectors_on_disk(tmp_path / "two" / ".." / "two")((2, 2), dtype=np.float32)
    made[:] = axes(2)
    save_vectors(["a", "b"], made, tmp_path / "two")
    for file in ("vectors.npy", "vectors.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_table_of_an_index_holds_what_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "GROUP_BYTES", 2 * 3 * 4)  # two vectors at once
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    save_vectors(list("abcde"), vectors, tmp_path)
    table = pq.read_table(tmp_path / "vectors.parquet")
    assert pq.ParquetFile(tmp_path / "vectors.parquet").num_row_groups == 3
    assert table.schema.field("vector").type.list_size == 3
    assert table["chunk_id"].to_pylist() == list("abcde")
    assert np.array_equal(np.stack(table["vector"].to_numpy()), vectors)
    for shape in ((0, 0), (0, 3), (2, 0)):
        save_vectors(["a", "b"][: shape[0]], np.empty(shape, np.float32), tmp_path)
        assert VectorIndex.load(tmp_path).vectors.shape == shape


def test_shapes_and_ids_must_fit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="3 chunks, but vectors of shape"):
        save_vectors(["a", "b", "c"], axes(2), tmp_path)
    with pytest.raises(DataError, match="'a' occurs twice"):
        save_vectors(["a", "a"], axes(2), tmp_path)


def test_damaged_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        VectorIndex.load(tmp_path)
    save_vectors(["a", "b"], axes(2), tmp_path)
    pq.write_table(pa.table({"chunk_id": ["a"]}), tmp_path / "vectors.parquet")
    with pytest.raises(StoreError, match="is damaged: 1 ids"):
        VectorIndex.load(tmp_path)
    (tmp_path / "vectors.npy").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot be read"):
        VectorIndex.load(tmp_path)
