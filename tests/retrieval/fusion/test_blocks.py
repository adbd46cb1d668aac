"""A fusion is the same however many queries are worked on at once, and however tables are cut."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rag_assets.retrieval.fusion import methods
from rag_assets.retrieval.fusion.methods import NORMALISED, Normalisation
from tests.retrieval.fusion.fusing import borda, comb_mnz, ranking


def run(first: int, n_queries: int) -> pa.Table:
    """Return rankings of queries, each of another length, with ids that others have too."""
    tables = [
        ranking({f"d{(first * q + i * i) % 23}": 1 / (i + q) for i in range(3 + q % 5)}, f"q{q}")
        for q in range(first, first + n_queries)
    ]
    return pa.concat_tables(tables)


INPUTS = [run(1, 9), run(3, 9), run(2, 5)]


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("how", sorted(NORMALISED))
def test_blocks_of_queries(monkeypatch: pytest.MonkeyPatch, rows: int, how: Normalisation) -> None:
    def fused() -> list[pa.Table]:
        minima = [-1, 0, 0.5]
        return [
            comb_mnz(INPUTS, normalisation=how, minima=minima, candidates=5, depth=6),
            borda(INPUTS, candidates=5, depth=6),
        ]

    whole = fused()
    monkeypatch.setattr(methods, "MAX_ROWS", rows)
    assert fused() == whole
    assert whole[0]["query_id"].unique().to_pylist() == [
        f"q{n}" for n in (1, 10, 11, *range(2, 10))
    ]


def test_chunks_of_tables() -> None:
    whole = [table.combine_chunks() for table in INPUTS]
    assert borda(INPUTS, candidates=5, depth=6) == borda(whole, candidates=5, depth=6)


@pytest.mark.parametrize("how", sorted(NORMALISED))
def test_equal_scores_are_equal_whatever_their_rounding(how: Normalisation) -> None:
    # The mean of three times 0.1 is not 0.1 in floats.
    lists = [ranking({"a": 0.1, "b": 0.1, "c": 0.1})]
    found = comb_mnz(lists, normalisation=how, candidates=9, depth=9, minima=[-0.1])
    expected = {"none": 0.1, "distribution": 0.5}.get(how, 1.0)
    assert found["score"].to_pylist() == [expected] * 3
