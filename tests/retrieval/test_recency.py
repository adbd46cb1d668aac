"""Time-weighted searches against all scores, weighted by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.evaluation.query_facts import QUERY_FILTERS
from rag_assets.ordering import Hits, Positions
from rag_assets.retrieval import unit_ranking
from rag_assets.retrieval.recency import Recency, ages, date_of, dates_of
from rag_assets.retrieval.unit_ranking import (
    Search,
    UnitRanking,
    allowed_positions,
    time_weighted_ranking,
)
from rag_assets.schemas import DOCUMENTS, RUNS

Row = Sequence[float | None]
Drawn = TypeVar("Drawn")
N_DOCUMENTS, N_QUERIES = 6, 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-05-03", datetime(2024, 5, 3, tzinfo=UTC)),
        (" 2024-05-03 ", datetime(2024, 5, 3, tzinfo=UTC)),
        ("20240503", datetime(2024, 5, 3, tzinfo=UTC)),
        (20240503, datetime(2024, 5, 3, tzinfo=UTC)),
        ("2024-05", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        (2024, datetime(2024, 1, 1, tzinfo=UTC)),
        (2024.0, datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-05-03T12:30:00", datetime(2024, 5, 3, 12, 30, tzinfo=UTC)),
        ("2024-05-03T12:30:00Z", datetime(2024, 5, 3, 12, 30, tzinfo=UTC)),
        ("2024-05-03T01:30:00+02:00", datetime(2024, 5, 2, 23, 30, tzinfo=UTC)),
        ("31.12.2024", None),
        ("2024-13", None),
        ("2024-02-30", None),
        ("0001-01-01T00:00:00+10:00", None),
        ("yesterday", None),
        ("", None),
        (1714694400, None),
        (2024.5, None),
        (True, None),
        (None, None),
        (["2024-05-03"], None),
    ],
)
def test_what_is_a_date(value: object, expected: datetime | None) -> None:
    assert date_of(value) == expected


def test_the_formula_by_hand() -> None:
    """After one half-life half of the share is lost, after two three quarters."""
    dates = {"new": "2026-01-31", "half": "2025-11-02", "later": "2026-06-01", "two": "2025-08-04"}
    known = {name: datetime.fromisoformat(text).replace(tzinfo=UTC) for name, text in dates.items()}
    found = ages(known, Recency(half_life="90d", weight=0.4, now="2026-01-31"))
    assert {name: one.age for name, one in found.items()} == {
        "new": 0,
        "half": 90,
        "later": 0,
        "two": 180,
    }
    factors = {name: one.factor for name, one in found.items()}
    assert factors == pytest.approx({"new": 1, "half": 0.8, "later": 1, "two": 0.7})
    newest = ages(known, Recency(half_life="90d"))
    assert newest["later"].age == 0
    assert newest["new"].age == 121


@pytest.mark.parametrize(
    ("half_life", "days"), [("90d", 90), ("12w", 84), ("2y", 730.5), ("0.5y", 182.625)]
)
def test_half_lives(half_life: str, days: float) -> None:
    assert Recency(half_life=half_life).half_life_days == days


@pytest.mark.parametrize("half_life", [90, "90", "90m", "0d", "-3d", "d", "1e3d", "٣d", "", None])
def test_what_is_no_half_life(half_life: object) -> None:
    with pytest.raises(ValidationError, match="must be a number of days, weeks or years"):
        Recency.model_validate({"half_life": half_life})


def test_now_and_weight() -> None:
    given = {"half_life": "1d", "now": date(2026, 1, 31)}
    assert Recency.model_validate(given).now == "2026-01-31"
    for wrong in ("now", "31.1.2026", 5.5, None):
        with pytest.raises(ValidationError, match="must be newest, or a date such as"):
            Recency.model_validate({"half_life": "1d", "now": wrong})
    for weight in (1, -0.1, "0.3"):
        with pytest.raises(ValidationError, match="weight"):
            Recency.model_validate({"half_life": "1d", "weight": weight})


def test_dates_of_documents() -> None:
    fields = {
        "c": {"date": "2024-05-03", "by": "Ann"},
        "b": {"date": "last May"},
        "a": {"date": ""},
        "d": {},
    }
    rows: list[dict[str, object]] = [
        {"document_id": name, "title": "", "text": "", "metadata": json.dumps(own)}
        for name, own in fields.items()
    ]
    found = dates_of(DOCUMENTS.from_rows(rows), "date")
    assert found.known == {"c": datetime(2024, 5, 3, tzinfo=UTC)}
    assert found.undated == {"a": None, "b": "last May", "d": None}
    assert found.fields == {"by", "date"}


class Engine:
    """Scores by a table; None is no hit. Remembers the largest requests."""

    def __init__(self, scores: Sequence[Row]) -> None:
        self.scores = scores
        self.deepest = self.largest = 0

    def search(self, numbers: Sequence[int], depth: int) -> list[Hits]:
        assert numbers
        self.deepest = max(self.deepest, depth)
        self.largest = max(self.largest, len(numbers) * depth)
        return [hits_of(ordered(self.scores[number])[:depth]) for number in numbers]

    def part(self, positions: Positions) -> Search:
        """Search some chunks alone."""
        return Engine([[row[position] for position in positions] for row in self.scores]).search


def ordered(scores: Row) -> list[tuple[int, float]]:
    """Score descending, then position, as ids are, descending."""
    hits = [(position, score) for position, score in enumerate(scores) if score is not None]
    return sorted(hits, key=lambda one: (-one[1], -one[0]))


def hits_of(found: Sequence[tuple[int, float]]) -> Hits:
    positions = np.array([position for position, _ in found], np.int64)
    return Hits(positions, np.array([score for _, score in found], np.float64))


def weighted_by_hand(scores: Row, factors: Sequence[float]) -> list[float | None]:
    return [
        None if score is None else score * factor if score >= 0 else score / factor
        for score, factor in zip(scores, factors, strict=True)
    ]


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[list[float | None]], list[int]]:
    """Scores of some queries, and the document of each chunk.

    Few scores are different, so that weighted ones tie too: 2 * 0.5 = 1 * 1.
    """
    n_chunks = draw(st.integers(1, 40))
    score = st.none() | st.sampled_from([-4.0, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0])
    row = st.lists(score, min_size=n_chunks, max_size=n_chunks)
    documents = st.lists(st.integers(0, N_DOCUMENTS - 1), min_size=n_chunks, max_size=n_chunks)
    return draw(st.lists(row, min_size=1, max_size=N_QUERIES)), draw(documents)


def each(count: int, values: st.SearchStrategy[Drawn]) -> st.SearchStrategy[list[Drawn]]:
    return st.lists(values, min_size=count, max_size=count)


def chunks_of(documents: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "chunk_id": [f"c{position:03}" for position in range(len(documents))],
            "document_id": [f"d{number}" for number in documents],
        }
    )


@given(corpora(), each(N_DOCUMENTS, st.sampled_from([1.0, 0.5, 0.25, 0.7])), st.integers(1, 50))
def test_the_best_of_all_scores_at_any_depth(
    corpus: tuple[list[list[float | None]], list[int]], factors: list[float], depth: int
) -> None:
    scores, documents = corpus
    by_document = {f"d{number}": factor for number, factor in enumerate(factors)}
    ranking = UnitRanking(Engine(scores).search, chunks_of(documents), "chunk", factors=by_document)
    for number, hits in enumerate(ranking.hits(range(len(scores)), depth)):
        everything = weighted_by_hand(scores[number], [factors[one] for one in documents])
        expected = ordered(everything)[:depth]
        assert list(zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)) == expected


def test_a_search_stops_where_nothing_can_rise() -> None:
    """The 20th of 1,000 scores 1 - 0.02; times the factor of the newest it is below 0.99."""
    engine = Engine([[1 - position / 1000 for position in range(1000)]])
    factors = {"d0": 1.0, "d1": 0.5}
    documents = [position % 2 for position in range(1000)]
    ranking = UnitRanking(engine.search, chunks_of(documents), "chunk", factors=factors)
    (hits,) = ranking.hits([0], 5)
    assert hits.positions.tolist() == [0, 2, 4, 6, 8]
    assert engine.deepest == 20


def test_a_complete_ranking() -> None:
    """What no document is known of is as old as the oldest; equal scores are ordered by id."""
    given = [
        ("p", "a", 4.0, "old"),
        ("p", "b", 3.0, "new"),
        ("p", "c", 2.0, "new"),
        ("p", "e", -2.0, "new"),
        ("p", "f", -1.0, "old"),
        ("q", "g", 1.0, "nobody"),
    ]
    rows: list[dict[str, object]] = [
        {"query_id": q, "rank": 1, "score": s, "unit_id": u, "chunk_id": u, "document_id": d}
        for q, u, s, d in given
    ]
    found = time_weighted_ranking(RUNS.from_rows(rows), {"old": 0.5, "new": 1.0}, 4)
    assert [tuple(row.values())[:4] for row in found.to_pylist()] == [
        ("p", 1, 3.0, "b"),
        ("p", 2, 2.0, "c"),
        ("p", 3, 2.0, "a"),
        ("p", 4, -2.0, "f"),
        ("q", 1, 0.5, "g"),
    ]


@given(
    corpora(),
    each(N_QUERIES, st.none() | each(N_DOCUMENTS, st.booleans())),
    st.integers(1, 30),
    st.booleans(),
)
def test_a_restricted_search_is_the_ranking_without_the_others(
    corpus: tuple[list[list[float | None]], list[int]],
    masks: list[list[bool] | None],
    depth: int,
    divisible: bool,
) -> None:
    scores, documents = corpus
    engine = Engine(scores)
    allowed = [None if m is None else np.flatnonzero(np.array(m)[documents]) for m in masks]
    part = engine.part if divisible else None
    ranking = UnitRanking(engine.search, chunks_of(documents), "chunk", allowed, None, part)
    for number, hits in enumerate(ranking.hits(range(len(scores)), depth)):
        mask = masks[number]
        expected = [
            one for one in ordered(scores[number]) if mask is None or mask[documents[one[0]]]
        ][:depth]
        assert list(zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)) == expected


def test_few_hits_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_ranking, "MAX_HITS_AT_ONCE", 100)
    engine = Engine([list(range(1, 51))] * 20)
    allowed = [np.array([0])] * 20
    ranking = UnitRanking(engine.search, chunks_of(range(50)), "chunk", allowed)
    assert [hits.positions.tolist() for hits in ranking.hits(range(20), 3)] == [[0]] * 20
    assert engine.largest <= 100


def test_allowed_positions() -> None:
    filters = QUERY_FILTERS.from_rows(
        [
            {
                "query_set": "",
                "filter": "a",
                "query_ids": ["p", "q"],
                "document_ids": ["d", "gone"],
            },
            {"query_set": "", "filter": "b", "query_ids": ["r"], "document_ids": []},
        ]
    )
    chunks = pa.table({"document_id": ["d", "e", "d"]})
    found = allowed_positions(filters, ["q", "other", "r", "q"], chunks)
    assert [None if a is None else a.tolist() for a in found] == [[0, 2], None, [], [0, 2]]
