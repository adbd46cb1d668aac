"""Vectors by content, and how caches are filled."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.cache_fill import (
    DENSE_VECTORS,
    SPARSE_VECTORS,
    TOKEN_VECTORS,
    Lengths,
    SparseVector,
    ValueCache,
    Values,
    filled,
    in_groups,
    numbers,
    objects,
)
from rag_assets.store.content_cache import text_keys
from tests.cached_vectors import VectorCache

SPACE = "0123456789abcdef" * 4


def vectors_of(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), hash(text) % 1000, 1.5] for text in texts], dtype=np.float32)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix} {i}" for i in range(count)]


def segments(cache: VectorCache) -> list[Path]:
    return sorted(cache.folder.glob("*"))


def test_round_trip_over_segments_and_processes(tmp_path: Path) -> None:
    first, second = names("one", 5), names("two", 3)
    cache = VectorCache(tmp_path, SPACE)
    cache.put(first, vectors_of(first))
    cache.put(second, vectors_of(second))
    asked = [second[2], "unknown", first[4], second[0], first[4], ""]
    for reader in (cache, VectorCache(tmp_path, SPACE)):
        vectors, found = reader.get(asked)
        assert found.tolist() == [True, False, True, True, True, False]
        assert np.array_equal(
            vectors[found], vectors_of([t for t in asked if "unknown" != t != ""])
        )
        assert not vectors[~found].any()
    assert cache.folder == tmp_path / SPACE[:16]


def test_known_texts_are_not_written_again(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, SPACE)
    cache.put(["a", "b"], vectors_of(["a", "b"]))
    cache.put(["b"], vectors_of(["b"]) + 1)
    assert len(segments(cache)) == 1
    cache.put(["b", "c"], vectors_of(["b", "c"]) + 1)
    vectors, _ = cache.get(["b", "c"])
    assert np.array_equal(vectors[0], vectors_of(["b"])[0])
    assert np.array_equal(vectors[1], vectors_of(["c"])[0] + 1)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "text", "columns"])
def test_damaged_segment_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    writer = VectorCache(tmp_path, SPACE)
    for name in ("bad", "good"):
        writer.put(names(name, 50), vectors_of(names(name, 50)))
    bad = segments(writer)[0]
    content = bytearray(bad.read_bytes())
    if damage == "truncated":
        bad.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":  # in the vectors: only the checksum can tell
        place = content.find(np.float32(1.5).tobytes(), 50 * 32)
        content[place + 1] ^= 1
        bad.write_bytes(content)
    elif damage == "columns":
        pq.write_table(pa.table({"key": ["x"], "vector": [1.0]}), bad)
    else:
        bad.write_bytes(b"" if damage == "empty" else b"hello")
    cache = VectorCache(tmp_path, SPACE)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            vectors, found = cache.get(["bad 1", "good 1", "bad 2"])
    assert found.tolist() == [False, True, False]
    assert np.array_equal(vectors[1:2], vectors_of(["good 1"]))
    assert len(caplog.records) == 1
    assert bad.name in caplog.text
    cache.put(["bad 1"], vectors_of(["bad 1"]))
    assert cache.get(["bad 1"])[1].all()


def _write(root: Path, writer: int) -> None:
    cache = VectorCache(root, SPACE)
    for start in range(0, 200, 10):
        texts = [f"t{i}" for i in range(start, start + 20)]
        cache.put(texts, np.full((20, 3), writer, dtype=np.float32))
        assert cache.get(texts)[1].all()


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path, number)) for number in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    texts = [f"t{i}" for i in range(210)]
    vectors, found = VectorCache(tmp_path, SPACE).get(texts)
    assert found.all()
    assert set(vectors.ravel().tolist()) <= {1.0, 2.0}
    assert np.array_equal(VectorCache(tmp_path, SPACE).get(texts)[0], vectors)


Result = TypeVar("Result")
STORED = numbers("length", np.int32)


class LastFirst(Compute):
    """Finishes its blocks in another order, as a cluster may."""

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        yield from reversed([(n, work(*block)) for n, block in enumerate(blocks)])


class Groups:
    """Gives the length of each text, and notes what it was given."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Values:
        self.seen.append(texts)
        return np.array([len(text) for text in texts], np.int32)


def letters(texts: Any) -> Lengths:
    return np.array([len(text) for text in texts], dtype=np.int_)


def lengths(
    texts: list[str],
    work: Callable[[list[str]], Values],
    folder: Path | None,
    compute: Compute = LOCAL,
    progress: Callable[[int, int], None] | None = None,
) -> list[int]:
    cache = ValueCache(folder, STORED) if folder is not None else None
    values = filled(
        text_keys(texts),
        STORED,
        cache,
        lambda rows: in_groups(texts, rows, letters, work, 2, compute),
        progress=progress,
    )
    return [int(value) for value in values]


@pytest.mark.parametrize("compute", [LOCAL, LastFirst()])
def test_each_text_is_computed_once_longest_first(tmp_path: Path, compute: Compute) -> None:
    work, told = Groups(), list[tuple[int, int]]()
    texts = ["bb", "a", "", "bb", "dddd", "ccc"]
    found = lengths(texts, work, tmp_path, compute, lambda *n: told.append(n))
    assert found == [len(text) for text in texts]
    assert work.seen == [["dddd", "ccc"], ["bb", "a"], [""]]
    assert [total for _, total in told] == [5, 5, 5]
    assert told[-1] == (5, 5)


def test_only_what_is_unknown_is_computed(tmp_path: Path) -> None:
    again, told = Groups(), list[tuple[int, int]]()
    lengths(["a", "bb"], Groups(), tmp_path)
    assert lengths(["ccc", "a", "bb"], again, tmp_path, LOCAL, lambda *n: told.append(n)) == [
        3,
        1,
        2,
    ]
    assert (again.seen, told) == ([["ccc"]], [(1, 1)])
    lengths(["bb", "a", "bb"], again, tmp_path, LOCAL, lambda *n: told.append(n))
    assert (len(again.seen), len(told)) == (1, 1), "nothing is left to be done"


def test_what_was_computed_before_a_failure_is_kept(tmp_path: Path) -> None:
    def short_ones_fail(texts: list[str]) -> Values:
        if "a" in texts:
            raise ValueError("a")
        return Groups()(texts)

    with pytest.raises(ValueError, match="a"):
        lengths(["a", "bb", "ccc"], short_ones_fail, tmp_path)
    again = Groups()
    lengths(["a", "bb", "ccc"], again, tmp_path)
    assert again.seen == [["a"]]


def test_what_another_process_stored_first_stays(tmp_path: Path) -> None:
    def late(texts: list[str]) -> Values:
        ValueCache(tmp_path, STORED).put(text_keys(texts), np.array([99], np.int32))
        return Groups()(texts)

    assert lengths(["a"], late, tmp_path) == [99]


def test_what_is_left_out_is_as_it_was_made(tmp_path: Path) -> None:
    stored = numbers("score", np.float64)

    def one_of_them(rows: Any) -> Iterator[tuple[Any, Values]]:
        yield rows[:1], np.array([0.5])

    def unscored(shape: Any, *, dtype: Any) -> Values:
        return np.full(shape, np.nan, dtype=dtype)

    values = filled(text_keys(["a", "b"]), stored, None, one_of_them, make=unscored)
    assert values.tolist()[:1] == [0.5]
    assert np.isnan(values[1])
    none = filled(text_keys(["a"]), stored, None, lambda rows: iter(()), make=unscored)
    assert np.isnan(none).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_not_kept(tmp_path: Path, value: float) -> None:
    cache = ValueCache(tmp_path, numbers("score", np.float64))
    with pytest.raises(DataError, match="NaN or infinite"):
        cache.put(text_keys(["a"]), np.array([value]))
    assert not list(tmp_path.iterdir())


def test_vectors_of_another_dimension_are_refused() -> None:
    def two_sizes(rows: Any) -> Iterator[tuple[Any, Values]]:
        yield rows[:1], np.ones((1, 3), np.float32)
        yield rows[1:], np.ones((1, 4), np.float32)

    with pytest.raises(ModelUnavailable, match="3 dimensions, then of 4"):
        filled(text_keys(["a", "b"]), DENSE_VECTORS, None, two_sizes)


def test_every_kind_of_vector_comes_back_bit_by_bit(tmp_path: Path) -> None:
    sparse = [
        SparseVector(np.array([1, 7], np.int32), np.array([0.5, 3e-38], np.float32)),
        SparseVector(np.empty(0, np.int32), np.empty(0, np.float32)),
    ]
    tokens = [np.arange(6, dtype=np.float16).reshape(3, 2), np.empty((0, 2), np.float16)]
    keys = text_keys(["a", "b"])
    for name, stored, values in (
        ("sparse", SPARSE_VECTORS, objects(sparse)),
        ("tokens", TOKEN_VECTORS, objects(tokens)),
    ):
        ValueCache(tmp_path / name, stored).put(keys, values)
        found, _ = ValueCache(tmp_path / name, stored).get(text_keys(["b", "a"]))
        assert found is not None
        for one, other in zip(found, values[::-1], strict=True):
            parts = zip(one, other, strict=True)
            assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in parts)
