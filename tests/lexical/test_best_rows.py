from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.lexical import best_rows
from rag_assets.lexical.best_rows import Columns
from rag_assets.lexical.column_sums import column_sums
from rag_assets.ordering import Positions, best_above_zero

N_ROWS, N_COLUMNS = 300, 24


@pytest.fixture(autouse=True)
def _every_step_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_rows, "FEW_ENTRIES", 1)
    monkeypatch.setattr(best_rows, "SHORT", 4)
    monkeypatch.setattr(best_rows, "ENOUGH", 1)


def columns(seed: int, different: int) -> Columns:
    """Return columns of all lengths, long ones with low values, as words have; and many ties."""
    random = np.random.default_rng(seed)
    rows, values = [], []
    for number in range(N_COLUMNS):
        size = max(1, int(N_ROWS / (number + 1)))
        rows.append(np.sort(random.choice(N_ROWS, size, replace=False)).astype(np.int32))
        values.append(np.log(2 + number) * random.integers(1, different + 1, size) / different)
    indptr = np.concatenate([[0], np.cumsum([part.size for part in rows])])
    return Columns(np.concatenate(values), np.concatenate(rows), indptr, N_ROWS)


def ids(seed: int) -> Positions:
    return np.random.default_rng(seed).permutation(N_ROWS)


@settings(deadline=None, max_examples=120)
@given(
    st.integers(0, 9),
    st.sampled_from([1, 3, 1000]),
    st.lists(st.integers(0, N_COLUMNS - 1), max_size=9),
    st.sampled_from([1, 2, 10, 100, N_ROWS, 1000]),
)
def test_equal_to_adding_all(seed: int, different: int, wanted: list[int], k: int) -> None:
    made, ids_rank = columns(seed, different), ids(seed)
    sums = column_sums(made.data, made.indices, made.indptr, wanted, N_ROWS)
    expected = best_above_zero(sums, ids_rank, k)
    for _ in range(2):  # the second time with what was kept
        found = made.best(wanted, ids_rank, k)
        assert found.positions.dtype == np.int64
        assert found.positions.tolist() == expected.positions.tolist()
        assert found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("dense_bytes", [0, 8 * N_ROWS, 1 << 28])
def test_the_limit_of_what_is_kept(monkeypatch: pytest.MonkeyPatch, dense_bytes: int) -> None:
    monkeypatch.setattr(best_rows, "DENSE_BYTES", dense_bytes)
    made, ids_rank = columns(1, 1000), ids(1)
    wanted = [0, 9, 2, 20, 1, 9]
    sums = column_sums(made.data, made.indices, made.indptr, wanted, N_ROWS)
    found = made.best(wanted, ids_rank, 7)
    assert found.scores.tolist() == best_above_zero(sums, ids_rank, 7).scores.tolist()
    kept = [each for each in made._known.values() if each.dense is not None]
    assert len(kept) == min(3, dense_bytes // (8 * N_ROWS))


def test_fewer_than_one_row_is_refused() -> None:
    with pytest.raises(UsageError, match="k is 0"):
        columns(1, 3).best([1, 2], ids(1), 0)
