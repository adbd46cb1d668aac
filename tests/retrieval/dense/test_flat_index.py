from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import DataError, StoreError
from rag_assets.retrieval.dense.vector_index import VectorIndex, save_vectors, vectors_on_disk


def axes(count: int) -> np.ndarray:
    return np.eye(count, dtype=np.float32)


def test_round_trip(tmp_path: Path) -> None:
    ids = ["a", "b\nc", "ü"]
    assert save_vectors(ids, axes(3), tmp_path) == {"chunks": 3, "dimension": 3, "bytes": 36}
    index = VectorIndex.load(tmp_path)
    assert index.chunk_ids == tuple(ids)
    assert np.array_equal(index.vectors, axes(3))
    assert not index.vectors.flags.writeable
    assert sorted(file.name for file in tmp_path.iterdir()) == ["chunk_ids.json", "vectors.npy"]


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_vectors(["a", "b"], axes(2), tmp_path / name)
    for file in ("vectors.npy", "chunk_ids.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_vectors_that_are_made_on_disk_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    save_vectors(["a", "b"], axes(2), tmp_path / "one")
    # By another name of the same folder.
    made = vectors_on_disk(tmp_path / "two" / ".." / "two")((2, 2), dtype=np.float32)
    made[:] = axes(2)
    save_vectors(["a", "b"], made, tmp_path / "two")
    for file in ("vectors.npy", "chunk_ids.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_empty_index(tmp_path: Path) -> None:
    save_vectors([], np.empty((0, 0), dtype=np.float32), tmp_path)
    assert VectorIndex.load(tmp_path).chunk_ids == ()


def test_shapes_and_ids_must_fit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="3 chunks, but vectors of shape"):
        save_vectors(["a", "b", "c"], axes(2), tmp_path)
    with pytest.raises(DataError, match="'a' occurs twice"):
        save_vectors(["a", "a"], axes(2), tmp_path)


def test_damaged_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        VectorIndex.load(tmp_path)
    save_vectors(["a", "b"], axes(2), tmp_path)
    (tmp_path / "chunk_ids.json").write_text('["a"]')
    with pytest.raises(StoreError, match="is damaged: 1 ids"):
        VectorIndex.load(tmp_path)
    (tmp_path / "vectors.npy").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot be read"):
        VectorIndex.load(tmp_path)


def test_pickled_array_is_refused(tmp_path: Path) -> None:
    save_vectors(["a"], axes(1), tmp_path)
    np.save(tmp_path / "vectors.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(StoreError, match="cannot be read"):
        VectorIndex.load(tmp_path)
