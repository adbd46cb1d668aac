"""A contract that nothing can break is none: each of these members breaks it in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import pyarrow as pa
import pytest

from rag_assets.chunking.chunker import Piece
from rag_assets.errors import UsageError
from rag_assets.evaluation.measure import JudgedRanking, Measure, RankingMeasure
from rag_assets.evaluation.measures import KIND, MEASURE_TYPES
from rag_assets.plugins import Members
from rag_assets.query_sets.query_set import ComputedQuerySet, Variants
from rag_assets.schemas import QUERY_VARIANTS
from rag_assets.testing import ChunkerContract, MetricContract, QuerySetContract

Cut = Callable[[Sequence[str]], Iterator[Sequence[Piece]]]
CALLS = count()


def losing(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
    """The last character of every text is lost."""
    for text in texts:
        yield [Piece(0, len(text) - 1)] if len(text) > 1 else []


def twice(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
    """Two pieces have one span."""
    for text in texts:
        yield [Piece(0, len(text))] * 2 if text else []


def in_two(text: str, middle: int) -> Sequence[Piece]:
    middle = min(middle, len(text))
    return [Piece(*span) for span in ((0, middle), (middle, len(text))) if span[0] < span[1]]


def by_number(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
    """How a text is cut depends on how many there are."""
    return (in_two(text, len(texts)) for text in texts)


def by_chance(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
    """How a text is cut depends on how often it was cut."""
    return (in_two(text, next(CALLS) % 7) for text in texts)


@pytest.mark.parametrize(
    ("cut", "test"),
    [
        (losing, ChunkerContract.test_chunks_are_slices_that_hold_all_text),
        (twice, ChunkerContract.test_chunks_are_slices_that_hold_all_text),
        (by_number, ChunkerContract.test_a_document_is_cut_alike_alone_and_among_others),
        (by_chance, ChunkerContract.test_equal_documents_give_equal_chunks),
    ],
)
def test_a_broken_chunker(cut: Cut, test: Callable[[ChunkerContract, Cut], None]) -> None:
    with pytest.raises(AssertionError):
        test(ChunkerContract(), cut)


class Planted(RankingMeasure):
    """Reads only what it may; the faults below change it."""

    name = "planted"
    formula = "share of relevant units"

    def value(self, ranking: JudgedRanking, k: int) -> float:
        return sum((grade or 0) > 0 for grade in ranking.grades) / k


class ByChance(Planted):
    """Another value each time."""

    def value(self, ranking: JudgedRanking, k: int) -> float:
        return 1 / (1 + next(CALLS))


class TooLarge(Planted):
    """Not divided by k."""

    def value(self, ranking: JudgedRanking, k: int) -> float:
        return sum(grade or 0 for grade in ranking.grades)


def with_measure(monkeypatch: pytest.MonkeyPatch, measure: type[Measure]) -> None:
    """Let ``planted`` be a metric."""
    places = {name: f"{one.__module__}:{one.__name__}" for name, one in MEASURE_TYPES.items()}
    places["planted"] = f"{__name__}:{measure.__name__}"
    types = Members(KIND, places)
    for module in ("metric_names", "metrics"):
        monkeypatch.setattr(f"rag_assets.evaluation.{module}.MEASURE_TYPES", types)
    monkeypatch.setattr("rag_assets.testing.metrics.MEASURE_TYPES", types)
    monkeypatch.setattr("rag_assets.evaluation.metric_names.MEASURES", tuple(types))


METRIC_TESTS = [name for name in vars(MetricContract) if name.startswith("test_")]


@pytest.mark.parametrize("test", METRIC_TESTS)
def test_a_sound_metric_passes(monkeypatch: pytest.MonkeyPatch, test: str) -> None:
    with_measure(monkeypatch, Planted)
    getattr(MetricContract(), test)("planted")


@pytest.mark.parametrize(
    ("measure", "test"),
    [
        (ByChance, MetricContract.test_a_query_is_measured_by_itself),
        (TooLarge, MetricContract.test_values_lie_from_0_to_1),
    ],
)
def test_a_broken_metric(
    monkeypatch: pytest.MonkeyPatch,
    measure: type[Measure],
    test: Callable[[MetricContract, str], None],
) -> None:
    with_measure(monkeypatch, measure)
    with pytest.raises((AssertionError, UsageError)):
        test(MetricContract(), "planted")


def test_a_measure_out_of_bounds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_measure(monkeypatch, TooLarge)
    with pytest.raises(UsageError, match=r"^metric 'planted' of rag_assets must lie from 0 to 1; "):
        MetricContract().test_values_lie_from_0_to_1("planted")


class WithoutOriginals(ComputedQuerySet):
    """The variants stand alone."""

    strategy: str = "planted"

    def variants(self, queries: pa.Table) -> Variants:
        rows = [
            {"query_id": query, "variant": 0, "text": "another"}
            for query in queries["query_id"].to_pylist()
        ]
        return Variants(QUERY_VARIANTS.from_rows(rows))


def test_a_broken_query_set() -> None:
    with pytest.raises(AssertionError):
        QuerySetContract().test_every_query_keeps_its_original(WithoutOriginals())
