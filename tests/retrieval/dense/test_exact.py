"""Exact search of vectors, and the flat index."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, StoreError
from rag_assets.models.cache_fill import MakeArray
from rag_assets.retrieval import array_folder
from rag_assets.retrieval.array_folder import VECTOR_SIZE
from rag_assets.retrieval.dense import vector_index
from rag_assets.retrieval.dense.vector_index import (
    MARGIN,
    Similarity,
    VectorIndex,
    build_vectors,
    save_vectors,
)
from rag_assets.store import blocks
from rag_assets.store.canonical import file_digests


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / lengths, dtype=np.float32)


def axes(count: int) -> np.ndarray:
    return np.eye(count, dtype=np.float32)


def rows_of(index: VectorIndex) -> np.ndarray:
    return np.concatenate(index.segments)


def definition(index: VectorIndex, query: np.ndarray, k: int) -> list[tuple[str, float]]:
    """All scores in float64, each row on its own, sorted by (score, id bytes) descending."""
    found, wide = [], query.astype(np.float64)
    for name, row in zip(index.chunk_ids, rows_of(index).astype(np.float64), strict=True):
        if index.similarity == "euclidean":
            score = -math.sqrt(float(((row - wide) * (row - wide)).sum()))
        else:
            score = float((row * wide).sum())
        found.append((name, score))
    return sorted(found, key=lambda pair: (pair[1], pair[0].encode()), reverse=True)[:k]


def found(
    index: VectorIndex, queries: np.ndarray, k: int, block: int = 256
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
    return VectorIndex(tuple(ids), (unit(rows),)), unit(queries)


@settings(max_examples=150, deadline=None)
@given(corpora(), st.integers(1, 60), st.integers(1, 7))
def test_exact_against_naive_float64(
    corpus: tuple[VectorIndex, np.ndarray], k: int, block: int
) -> None:
    index, queries = corpus
    assert found(index, queries, k, block) == [definition(index, query, k) for query in queries]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_ties_wider_than_the_margin_are_cut_by_id(similarity: Similarity) -> None:
    count = 10 * MARGIN
    vectors = np.tile(unit(np.ones((1, 48))), (count, 1))
    index = VectorIndex(tuple(f"c{i}" for i in range(count)), (vectors,), similarity)
    (hits,) = found(index, vectors[:1], 5)
    assert [name for name, _ in hits] == sorted(index.chunk_ids, reverse=True)[:5]
    assert len({score for _, score in hits}) == 1


def test_threads_and_blocks_change_nothing() -> None:
    import faiss

    generator = np.random.default_rng(1)
    vectors = unit(generator.normal(size=(3000, 64)))
    vectors[1000:1500] = vectors[0]
    index = VectorIndex(tuple(str(i) for i in range(3000)), (vectors,))
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
    index = VectorIndex(("a", "b"), (axes(2),))

    def interrupted(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.nearest(axes(2), 1, interrupted, block=1)
    assert (faiss.cvar.distance_compute_blas_threshold, faiss.omp_get_max_threads()) == before


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
    index = VectorIndex(("a", "b"), (axes(2),))
    with pytest.raises(DataError, match=problem):
        index.nearest(query, 1)


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
    ids = tuple(f"c{number}" for number in random.permutation(90))
    index = VectorIndex(ids, (vectors,), similarity)
    query = ((random.normal(size=5) + shift) * scale).astype(np.float32)
    for k in (1, 7, 89, 200):
        assert found(index, query[None, :], k) == [definition(index, query, k)]


def test_length_decides_the_inner_product_and_not_the_distance() -> None:
    vectors = np.array([[10, 0], [1, 0.1], [0, 0]], dtype=np.float32)
    index, query = VectorIndex(("long", "near", "zero"), (vectors,), "dot"), axes(2)[:1]
    assert [name for name, _ in found(index, query, 3)[0]] == ["long", "near", "zero"]
    (by_distance,) = found(replace(index, similarity="euclidean"), query, 3)
    assert [name for name, _ in by_distance] == ["near", "zero", "long"]
    assert by_distance[2] == ("long", -9.0)


def test_vectors_of_any_length_that_are_refused() -> None:
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    query, space = np.array([[np.nan, 1]], np.float32), VectorIndex(("a", "b"), (vectors,))
    with pytest.raises(DataError, match=r"vector of query 0 has length nan; .* at most 1e18"):
        replace(space, similarity="dot").nearest(query, 1)
    long = VectorIndex(("a", "b"), (np.array([[1, 0], [1e19, 0]], np.float32),))
    with pytest.raises(DataError, match=r"vector of chunk 'b' has length inf|chunk 'b' has len"):
        replace(long, similarity="dot").nearest(vectors, 1)


def saved(
    folder: Path,
    vectors: dict[str, np.ndarray],
    earlier: Path | None = None,
    embedded: list[str] | None = None,
) -> dict[str, object]:
    """Index vectors whose texts are their ids and numbers."""
    ids = list(vectors)
    folder.mkdir()
    contents = {f"{name} {row.tolist()}": name for name, row in vectors.items()}

    def embed(texts: Sequence[str], make: MakeArray) -> np.ndarray:
        names = [contents[text] for text in texts]
        if embedded is not None:
            embedded.extend(names)
        made = make((len(names), DIMENSION), dtype=np.float32) if names else axes(0)
        for row, name in enumerate(names):
            made[row] = vectors[name]
        return made

    return build_vectors(ids, list(contents), folder, earlier, embed)


DIMENSION = 8


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of some 20 chunks, which are searched one by one."""
    monkeypatch.setattr(vector_index, "READ_AS_ONE", 0)
    monkeypatch.setattr(blocks, "TARGET", 5 * VECTOR_SIZE)
    monkeypatch.setattr(array_folder, "SEGMENT", 20 * VECTOR_SIZE)
    monkeypatch.setattr(array_folder, "MAX_SEGMENTS", 1 << 40)


def drawn(seed: int, n: int, distinct: int = 7) -> dict[str, np.ndarray]:
    """Return vectors of which few are different, so that ties lie across segments."""
    random = np.random.default_rng(seed)
    few = unit(random.normal(size=(distinct, DIMENSION)))
    order = random.permutation(n)
    return {f"c{number:03}": few[random.integers(distinct)] for number in order}


def ranked(index: VectorIndex, queries: np.ndarray, k: int) -> list[tuple[list[str], bytes]]:
    return [
        ([index.chunk_ids[position] for position in hits.positions], hits.scores.tobytes())
        for hits in index.nearest(queries, k)
    ]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize(("n", "distinct"), [(9, 3), (40, 4), (300, 9), (300, 290), (900, 2)])
@pytest.mark.usefixtures("small_segments")
def test_segments_give_the_bits_of_one(
    tmp_path: Path, n: int, distinct: int, similarity: Similarity, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = drawn(n, n, distinct)
    saved(tmp_path / "index", vectors)
    index = VectorIndex.load(tmp_path / "index", similarity)
    assert len(index.segments) >= n // 41
    with monkeypatch.context() as patch:
        patch.setattr(vector_index, "READ_AS_ONE", 1 << 20)
        as_one = VectorIndex.load(tmp_path / "index", similarity)
    assert len(as_one.segments) == 1
    whole = VectorIndex(tuple(vectors), (np.stack(list(vectors.values())),), similarity)
    queries = unit(np.random.default_rng(1).normal(size=(20, DIMENSION)))
    for k in (1, 60, n + 1):
        assert ranked(index, queries, k) == ranked(whole, queries, k) == ranked(as_one, queries, k)
    some = np.arange(0, n, 3)[::-1]
    names = tuple(index.chunk_ids[position] for position in some)
    few = VectorIndex(names, (np.stack([vectors[name] for name in names]),), similarity)
    assert ranked(index.restricted_to(some), queries, 5) == ranked(few, queries, 5)


def test_all_of_the_best_in_one_segment() -> None:
    """A segment is asked again for what its share does not hold."""
    random = np.random.default_rng(3)
    rows = random.normal(size=(4_000, 16)).astype(np.float32)
    rows[3_000:] += 9
    vectors = unit(rows)
    ids = tuple(f"c{number:04}" for number in range(4_000))
    whole = VectorIndex(ids, (vectors,))
    index = VectorIndex(ids, tuple(np.split(vectors, 4)))
    queries = unit(random.normal(size=(30, 16)) + 9)
    assert ranked(index, queries, 200) == ranked(whole, queries, 200)
    assert min(min(hits.positions) for hits in index.nearest(queries, 200)) >= 3_000


CHANGES: dict[str, Callable[[dict[str, np.ndarray]], object]] = {
    "edited": lambda vectors: vectors.update(c100=-vectors["c100"]),
    "deleted": lambda vectors: vectors.pop("c100"),
    "inserted": lambda vectors: vectors.update(c100x=vectors["c100"]),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.usefixtures("small_segments")
def test_an_edit_writes_one_segment(tmp_path: Path, what: str) -> None:
    vectors, embedded = drawn(0, 300), list[str]()
    saved(tmp_path / "known", vectors)
    CHANGES[what](vectors)
    facts = saved(tmp_path / "again", vectors, tmp_path / "known", embedded)
    assert facts == saved(tmp_path / "cold", vectors)
    assert file_digests(tmp_path / "again") == file_digests(tmp_path / "cold")
    known = {file.stat().st_ino for file in (tmp_path / "known").iterdir()}
    new = [file for file in (tmp_path / "again").iterdir() if file.stat().st_ino not in known]
    written = {file.stem.rpartition("-")[2] for file in new if "-" in file.name}
    # a block that ends elsewhere may join two segments, or divide one
    assert len(written) == 1 if what == "edited" else len(written) <= 2
    assert len(list((tmp_path / "again").glob("*.npy"))) > 9
    held = {name for end in written for name in ids_of(tmp_path / "again", end)}
    assert set(embedded) == held


def ids_of(folder: Path, end: str) -> list[str]:
    names: list[str] = pq.read_table(folder / f"vectors-{end}.parquet")["chunk_id"].to_pylist()
    return names


@pytest.mark.usefixtures("small_segments")
def test_what_has_no_segments_to_give_is_written_whole(tmp_path: Path) -> None:
    vectors = drawn(0, 90)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "vectors.npy").write_bytes(b"of an older version")
    saved(tmp_path / "index", vectors, tmp_path / "old")
    saved(tmp_path / "cold", vectors)
    assert file_digests(tmp_path / "index") == file_digests(tmp_path / "cold")
    with pytest.raises(StoreError, match=r"layout\.json: file of an index cannot be read"):
        VectorIndex.load(tmp_path / "old")


def test_the_table_of_an_index_holds_what_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "GROUP_BYTES", 2 * 3 * 4)  # two vectors at once
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    save_vectors(list("abcde"), vectors, tmp_path, "-0000")
    table = pq.read_table(tmp_path / "vectors-0000.parquet")
    assert pq.ParquetFile(tmp_path / "vectors-0000.parquet").num_row_groups == 3
    assert table.schema.field("vector").type.list_size == 3
    assert table["chunk_id"].to_pylist() == list("abcde")
    assert np.array_equal(np.stack(table["vector"].to_numpy()), vectors)


def test_an_index_of_nothing(tmp_path: Path) -> None:
    facts = saved(tmp_path / "none", {})
    assert (facts["chunks"], facts["dimension"]) == (0, 0)
    index = VectorIndex.load(tmp_path / "none")
    assert [hits.positions.size for hits in index.nearest(axes(1), 5)] == [0]
    assert VectorIndex(("a",), (axes(1),)).nearest(np.empty((0, 0), np.float32), 5) == []


def test_shapes_and_ids_must_fit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="3 chunks, but vectors of shape"):
        build_vectors(list("abc"), list("abc"), tmp_path, None, lambda *_, **__: axes(2))
    with pytest.raises(DataError, match="'a' occurs twice"):
        build_vectors(["a", "a"], ["x", "y"], tmp_path, None, lambda *_, **__: axes(2))


def test_damaged_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        VectorIndex.load(tmp_path)
    folder = tmp_path / "index"
    saved(folder, dict(zip("ab", axes(DIMENSION), strict=False)))
    pq.write_table(pa.table({"chunk_id": ["a"]}), folder / "vectors-0000.parquet")
    with pytest.raises(StoreError, match="is damaged: 1 ids"):
        VectorIndex.load(folder)
    (folder / "vectors-0000.npy").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot be read"):
        VectorIndex.load(folder)
