"""A restricted search against all hits, of which the others are left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.evaluation.query_facts import QUERY_FILTERS
from rag_assets.ordering import Hits, Positions
from rag_assets.retrieval import unit_ranking
from rag_assets.retrieval.unit_ranking import Restriction, Search, UnitRanking


class Engine:
    """Scores by a table; a score of 0 is no hit. Remembers the largest request."""

    def __init__(self, scores: Sequence[Sequence[int]]) -> None:
        self.scores = scores
        self.largest = 0

    def ranked(self, number: int) -> list[tuple[int, int]]:
        found = [(position, score) for position, score in enumerate(self.scores[number]) if score]
        return sorted(found, key=lambda one: (-one[1], -one[0]))

    def search(self, numbers: Sequence[int], depth: int) -> list[Hits]:
        assert numbers
        self.largest = max(self.largest, len(numbers) * depth)
        return [self.hits(self.ranked(number)[:depth]) for number in numbers]

    @staticmethod
    def hits(found: Sequence[tuple[int, int]]) -> Hits:
        positions = np.array([position for position, _ in found], np.int64)
        return Hits(positions, np.array([score for _, score in found], np.float64))

    def part(self, positions: Positions) -> Search:
        """Search some chunks alone."""
        some = Engine([[row[p] for p in positions] for row in self.scores])
        return some.search


def chunks_of(documents: Sequence[int]) -> pa.Table:
    names = [f"d{number}" for number in documents]
    return pa.table({"chunk_id": [f"c{n:03}" for n in range(len(names))], "document_id": names})


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[list[bool] | None], int]:
    n_chunks = draw(st.integers(1, 25))
    n_documents = draw(st.integers(1, 5))
    documents = draw(
        st.lists(st.integers(0, n_documents - 1), min_size=n_chunks, max_size=n_chunks)
    )
    row = st.lists(st.integers(0, 4), min_size=n_chunks, max_size=n_chunks)
    scores = draw(st.lists(row, min_size=1, max_size=4))
    mask = st.none() | st.lists(st.booleans(), min_size=n_documents, max_size=n_documents)
    masks = draw(st.lists(mask, min_size=len(scores), max_size=len(scores)))
    return scores, documents, masks, draw(st.integers(1, 30))


@given(cases(), st.booleans())
def test_a_restricted_search_is_the_ranking_without_the_others(
    case: tuple[list[list[int]], list[int], list[list[bool] | None], int], divisible: bool
) -> None:
    scores, documents, masks, depth = case
    engine = Engine(scores)
    arrays = [None if mask is None else np.array(mask) for mask in masks]
    part = engine.part if divisible else None
    restriction = Restriction(np.array(documents), arrays)
    ranking = UnitRanking(engine.search, chunks_of(documents), "chunk", restriction, None, part)
    for number, hits in enumerate(ranking.hits(range(len(scores)), depth)):
        mask = masks[number]
        expected = [
            one for one in engine.ranked(number) if mask is None or mask[documents[one[0]]]
        ][:depth]
        assert list(zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)) == expected


def test_few_hits_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_ranking, "MAX_HITS_AT_ONCE", 100)
    engine = Engine([list(range(1, 51))] * 20)
    mask = np.array([True] + [False] * 49)
    restriction = Restriction(np.arange(50), [mask] * 20)
    ranking = UnitRanking(engine.search, chunks_of(range(50)), "chunk", restriction)
    assert [hits.positions.tolist() for hits in ranking.hits(range(20), 3)] == [[0]] * 20
    assert engine.largest <= 100


def test_restriction() -> None:
    filters = QUERY_FILTERS.from_rows(
        [
            {"filter": "a", "query_ids": ["p", "q"], "document_ids": ["d", "gone"]},
            {"filter": "b", "query_ids": ["r"], "document_ids": []},
        ]
    )
    chunks = pa.table({"document_id": ["d", "e", "d"]})
    found = Restriction.of(filters, ["q", "other", "r", "q"], chunks)
    allowed = [None if m is None else m[found.documents].tolist() for m in found.masks]
    assert allowed == [[True, False, True], None, [False] * 3, [True, False, True]]
