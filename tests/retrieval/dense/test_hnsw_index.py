from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.models.cache_fill import SparseVector
from rag_assets.retrieval import array_folder
from rag_assets.retrieval.array_folder import VECTOR_SIZE
from rag_assets.retrieval.dense.embedding import GRAPH_FILE, HnswIndex, save_graph
from rag_assets.retrieval.dense.splade import ComponentIndex, build_index
from rag_assets.retrieval.dense.vector_index import (
    Similarity,
    VectorIndex,
    sparse_table,
    sparse_vectors,
)
from rag_assets.store import blocks
from rag_assets.store.canonical import file_digests

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


def recall(index: HnswIndex, queries: np.ndarray, k: int, ef_search: int) -> float:
    """Share of the exact best k that the graph leads to."""
    exact = VectorIndex(index.chunk_ids, index.segments, index.similarity).nearest(queries, k)
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


@every_measure
def test_the_order_of_rows_changes_no_byte(tmp_path: Path, measure: Similarity) -> None:
    vectors, ids = made(500), names(500)
    mixed = np.random.default_rng(5).permutation(500)
    indexed(tmp_path / "one", vectors, measure, ids)
    indexed(tmp_path / "other", vectors[mixed], measure, [ids[row] for row in mixed])
    for file in (GRAPH_FILE, "vectors-0000.npy", "vectors-0000.parquet"):
        one, other = (tmp_path / name / file for name in ("one", "other"))
        assert one.read_bytes() == other.read_bytes()


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


Weights = dict[int, float]

WEIGHT = st.floats(0.001953125, 8, width=32)
VECTOR = st.dictionaries(st.integers(0, 12), WEIGHT, max_size=6)


def sparse(weights: Weights) -> SparseVector:
    components = sorted(weights)
    values = [weights[component] for component in components]
    return SparseVector(np.array(components, np.int32), np.array(values, np.float32))


def naive(chunks: dict[str, Weights], query: Weights, k: int) -> list[tuple[str, float]]:
    """The definition: products are added in the order of the components."""
    scores: dict[str, float] = {}
    for name, own in chunks.items():
        shared = [component for component in sorted(query) if component in own]
        if shared:
            score = 0.0
            for component in shared:
                score += query[component] * own[component]
            scores[name] = score
    return sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)[:k]


def built(folder: Path, chunks: dict[str, Weights], earlier: Path | None = None) -> dict[str, Any]:
    vectors = {str(own): sparse(own) for own in chunks.values()}
    return build_index(
        list(chunks),
        list(map(str, chunks.values())),
        folder,
        earlier,
        lambda texts: [vectors[text] for text in texts],
    )


def indexed_components(folder: Path, chunks: dict[str, Weights]) -> ComponentIndex:
    built(folder, chunks)
    return ComponentIndex.load(folder)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(VECTOR, max_size=12), query=VECTOR, k=st.integers(1, 14))
def test_it_is_the_definition(rows: list[Weights], query: Weights, k: int) -> None:
    chunks = {f"c{(number * 7) % 13}": own for number, own in enumerate(rows)}
    with TemporaryDirectory() as folder:
        index = indexed_components(Path(folder), chunks)
    hits = index.ranked(sparse(query), k)
    ids = [index.chunk_ids[position] for position in hits.positions]
    assert list(zip(ids, hits.scores.tolist(), strict=True)) == naive(chunks, query, k)


def test_facts_and_nothing(tmp_path: Path) -> None:
    facts = built(tmp_path, {"a": {1: 1.0, 2: 1.0}, "b": {5: 2.0}})
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert facts == {"chunks": 2, "bytes": size, "mean_components": 1.5}
    terms = pq.read_table(tmp_path / "terms-0000.parquet")
    assert terms["term"].to_pylist() == list("012345")
    assert terms["document_frequency"].to_pylist() == [0, 1, 1, 0, 0, 1]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert indexed_components(empty, {}).ranked(sparse({3: 1.0}), 5).positions.size == 0


def weights_of(seed: int, n: int) -> dict[str, Weights]:
    """Return chunks of which few are different, so that ties lie across segments."""
    random = np.random.default_rng(seed)
    few = [
        {int(part): float(random.integers(1, 9)) for part in random.integers(0, 40, size=4)}
        for _ in range(6)
    ]
    return {f"c{number:03}": few[random.integers(6)] for number in random.permutation(n)}


@pytest.mark.parametrize("n", [3, 40, 300])
def test_segments_of_components_give_the_bits_of_one(
    tmp_path: Path, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = weights_of(n, n)
    for name in ("whole", "index", "again", "cold"):
        (tmp_path / name).mkdir()
    whole = indexed_components(tmp_path / "whole", chunks)
    monkeypatch.setattr(blocks, "TARGET", 5 * VECTOR_SIZE)
    monkeypatch.setattr(array_folder, "SEGMENT", 20 * VECTOR_SIZE)
    monkeypatch.setattr(array_folder, "MAX_SEGMENTS", 1 << 40)
    index = indexed_components(tmp_path / "index", chunks)
    assert (len(whole.segments), len(index.segments) >= n // 41) == (1, True)
    for seed in range(20):
        (query,) = weights_of(seed, 1).values()
        for k in (1, 10, n):
            hits, expected = index.ranked(sparse(query), k), whole.ranked(sparse(query), k)
            assert hits.positions.tolist() == expected.positions.tolist()
            assert hits.scores.tobytes() == expected.scores.tobytes()
    chunks["c001"] = {45: 1.0}
    assert built(tmp_path / "again", chunks, tmp_path / "index") == built(tmp_path / "cold", chunks)
    assert file_digests(tmp_path / "again") == file_digests(tmp_path / "cold")
    known = {file.stat().st_ino for file in (tmp_path / "index").iterdir()}
    tables = [*(tmp_path / "again").glob("*.parquet")]
    written = [file for file in tables if file.stat().st_ino not in known]
    assert len({file.stem.rpartition("-")[2] for file in written}) == 1
    assert len(written) == len(array_folder.COUNTED)


def test_what_is_refused_of_components(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        ComponentIndex.load(tmp_path)
    index = indexed_components(tmp_path, {"a": {1: 1.0}})
    with pytest.raises(UsageError, match="k is 0"):
        index.ranked(sparse({}), 0)
    pq.write_table(pa.table({"row": [], "weight": []}), tmp_path / "postings-0000.parquet")
    with pytest.raises(StoreError, match="0 rows for 1 of its terms"):
        ComponentIndex.load(tmp_path)


def test_queries_pass_through_their_table_unchanged() -> None:
    vectors = [sparse({0: 0.1, 30521: 3.5}), sparse({}), sparse({7: 0.3})]
    variants = pa.table({"query_id": ["a", "a", "b"], "variant": pa.array([0, 1, 0], pa.int32())})
    again = sparse_vectors(sparse_table(variants, vectors))
    # A part of a table is read from its own rows.
    again += sparse_vectors(sparse_table(variants, vectors).take(pa.array([2])))
    for one, other in zip(again, [*vectors, vectors[2]], strict=True):
        assert one.components.tolist() == other.components.tolist()
        assert one.weights.tolist() == other.weights.tolist()
    with pytest.raises(DataError, match="more than 16,777,216 components"):
        sparse_table(variants, [sparse({2**24: 1.0})] * 3)
