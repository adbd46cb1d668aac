from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.models.cache_fill import SparseVector
from rag_assets.retrieval.array_folder import ArrayFolder, load_columns
from rag_assets.retrieval.dense import splade
from rag_assets.retrieval.dense.splade import ComponentIndex
from rag_assets.retrieval.dense.vector_index import sparse_table, sparse_vectors

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


def indexed(folder: Path, chunks: dict[str, Weights]) -> ComponentIndex:
    splade.build_index(list(chunks), [sparse(own) for own in chunks.values()], folder)
    return ComponentIndex(**vars(load_columns(ArrayFolder(folder))))


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(VECTOR, max_size=12), query=VECTOR, k=st.integers(1, 14))
def test_it_is_the_definition(rows: list[Weights], query: Weights, k: int) -> None:
    chunks = {f"c{(number * 7) % 13}": own for number, own in enumerate(rows)}
    with TemporaryDirectory() as folder:
        index = indexed(Path(folder), chunks)
    (hits,) = index.nearest([sparse(query)], k)
    ids = [index.chunk_ids[position] for position in hits.positions]
    assert list(zip(ids, hits.scores.tolist(), strict=True)) == naive(chunks, query, k)


def test_the_order_of_rows_changes_no_byte(tmp_path: Path) -> None:
    chunks: dict[str, Weights] = {"b": {1: 0.5}, "a": {}, "\u00e9": {0: 1.0, 3: 2.0}}
    for name, given_chunks in (("one", chunks), ("other", dict(reversed(chunks.items())))):
        (tmp_path / name).mkdir()
        indexed(tmp_path / name, given_chunks)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "other" / file.name).read_bytes()


def test_facts_and_nothing(tmp_path: Path) -> None:
    facts = splade.build_index(["a", "b"], [sparse({1: 1.0, 2: 1.0}), sparse({5: 2.0})], tmp_path)
    assert facts == {"chunks": 2, "bytes": 3 * 8 + 7 * 8, "mean_components": 1.5}
    empty = tmp_path / "empty"
    empty.mkdir()
    index = indexed(empty, {})
    (hits,) = index.nearest([sparse({3: 1.0})], 5)
    assert hits.positions.size == 0
    assert index.nearest([], 5) == []


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        load_columns(ArrayFolder(tmp_path))
    index = indexed(tmp_path, {"a": {1: 1.0}})
    with pytest.raises(UsageError, match="k is 0"):
        index.nearest([sparse({})], 0)
    np.save(tmp_path / "weights.npy", np.empty(0, np.float32))
    with pytest.raises(StoreError, match="cannot be read"):
        load_columns(ArrayFolder(tmp_path))


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
