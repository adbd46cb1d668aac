from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.ordering import Hits, Positions, best_above_zero
from rag_assets.retrieval.lexical import best_rows as searching
from rag_assets.retrieval.lexical import sparse_columns
from rag_assets.retrieval.lexical.best_rows import best_rows
from rag_assets.retrieval.lexical.sparse_columns import SparseColumns, column_sums

N_ROWS, N_COLUMNS = 300, 24
VOCABULARY = {str(number): number for number in range(N_COLUMNS)}
QUERIES = st.lists(st.lists(st.integers(0, N_COLUMNS - 1), max_size=9), max_size=7)


def columns(seed: int, different: int, scale: float = 1.0) -> SparseColumns:
    """Return columns of all lengths, long ones with low values, as words have; and many ties.

    Six of them are kept as arrays over all rows.
    """
    random = np.random.default_rng(seed)
    rows, values = [], []
    for number in range(N_COLUMNS):
        size = max(1, int(N_ROWS / (number + 1) ** 1.5))
        rows.append(np.sort(random.choice(N_ROWS, size, replace=False)).astype(np.int32))
        values.append(np.log(1 + number) * random.integers(0, different + 1, size) / different)
    indptr = np.concatenate([[0], np.cumsum([part.size for part in rows])])
    return SparseColumns(np.concatenate(values) * scale, np.concatenate(rows), indptr, N_ROWS)


def ids(seed: int) -> Positions:
    return np.random.default_rng(seed).permutation(N_ROWS)


def of_all(made: SparseColumns, wanted: list[int], ids_rank: Positions, k: int) -> Hits:
    sums = column_sums(made.data, made.indices, made.indptr, wanted, made.n_rows)
    return best_above_zero(sums, ids_rank, k)


def check(made: SparseColumns, queries: list[list[int]], ids_rank: Positions, k: int) -> None:
    found = list(best_rows(made, VOCABULARY, [[*map(str, each)] for each in queries], ids_rank, k))
    assert len(found) == len(queries)
    for wanted, own in zip(queries, found, strict=True):
        expected = of_all(made, wanted, ids_rank, k)
        assert own.positions.dtype == np.int64
        assert own.positions.tolist() == expected.positions.tolist()
        assert own.scores.tobytes() == expected.scores.tobytes()


@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 9),
    st.sampled_from([1, 3, 1000]),
    QUERIES,
    st.sampled_from([1, 2, 10, 100, N_ROWS, 1000]),
    st.sampled_from([1, 1000, 1 << 18]),
    st.booleans(),
)
def test_equal_to_adding_all(
    seed: int,
    different: int,
    queries: list[list[int]],
    k: int,
    cells: int,
    in_order: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searching, "CELLS", cells)
        made, ids_rank = columns(seed, different), np.arange(N_ROWS) if in_order else ids(seed)
        for _ in range(2):  # the second time with what was kept
            check(made, queries, ids_rank, k)


@pytest.mark.parametrize("scale", [1e-320, 1e-32, 1e-20, 1e20, 1e36, 1e300])
@pytest.mark.parametrize("queries", [[[0, 9]], [[1, 2]], [[20, 22]], [[0], [20, 22], [9, 1, 1]]])
def test_values_that_float32_cannot_keep(scale: float, queries: list[list[int]]) -> None:
    made = columns(1, 1000, scale)
    for _ in range(2):
        check(made, queries, ids(1), 7)


def test_sums_that_float32_rounds_to_one() -> None:
    """Rows differ by less than float32 shows, and are ordered as float64 has them."""
    random = np.random.default_rng(0)
    rows = np.tile(np.arange(N_ROWS, dtype=np.int32), 3)
    values = 1 + 1e-9 * random.random(rows.size)
    made = SparseColumns(values, rows, np.arange(4) * N_ROWS, N_ROWS)
    check(made, [[0, 1, 2], [2, 1, 0], [1]], ids(0), 5)


def test_many_terms() -> None:
    made, random = columns(2, 1000), np.random.default_rng(2)
    check(made, [random.integers(0, N_COLUMNS, 2000).tolist(), [3], []], ids(2), 10)


def test_more_than_is_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "ADDED", 20)
    check(columns(2, 1), [[0, 1, 2], [], [4]], ids(2), 50)


@pytest.mark.parametrize("long_bytes", [0, 12 * N_ROWS, 1 << 28])
def test_the_limit_of_what_is_kept(monkeypatch: pytest.MonkeyPatch, long_bytes: int) -> None:
    monkeypatch.setattr(sparse_columns, "LONG_BYTES", long_bytes)
    made = columns(1, 1000)
    check(made, [[0, 9, 2, 20, 1, 9]], ids(1), 7)
    long = (np.diff(made.indptr) * sparse_columns.LONG_SHARE > N_ROWS).nonzero()[0]
    assert 2 < long.size < N_COLUMNS
    assert made.long.exact.shape == (min(long.size, long_bytes // (12 * N_ROWS)), N_ROWS)
    assert set(made.long.slots[long]) >= set(range(len(made.long.rounded)))


def test_threads_search_at_once() -> None:
    made, ids_rank = columns(3, 1000), ids(3)
    random = np.random.default_rng(3)
    queries = [random.integers(0, N_COLUMNS, 5).tolist() for _ in range(400)]
    with ThreadPoolExecutor(8) as pool:
        parts = [queries[start::8] for start in range(8)]
        [*pool.map(lambda part: check(made, part, ids_rank, 5), parts)]


def test_nothing_to_search() -> None:
    empty = SparseColumns(np.empty(0), np.empty(0, np.int32), np.zeros(1, np.int64), 0)
    (found,) = best_rows(empty, {}, [[]], np.empty(0, np.int64), 3)
    assert found.positions.size == found.scores.size == 0
    assert list(best_rows(columns(0, 3), VOCABULARY, [], ids(0), 3)) == []


@pytest.mark.parametrize("cells", [1, 1 << 18])
def test_tokens_without_a_column_add_nothing(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(searching, "CELLS", cells)
    monkeypatch.setattr(searching, "ADDED", 40)
    made, ids_rank = columns(4, 1000), ids(4)
    queries = [["none", "2", "", "20", "2"], ["none"], ["1", "none"]]
    found = best_rows(made, VOCABULARY, queries, ids_rank, 9)
    for wanted, own in zip([[2, 20, 2], [], [1]], found, strict=True):
        expected = of_all(made, wanted, ids_rank, 9)
        assert own.positions.tolist() == expected.positions.tolist()
        assert own.scores.tobytes() == expected.scores.tobytes()


def test_fewer_than_one_row_is_refused() -> None:
    with pytest.raises(UsageError, match="k is 0"):
        next(best_rows(columns(1, 3), VOCABULARY, [["1", "2"]], ids(1), 0))
