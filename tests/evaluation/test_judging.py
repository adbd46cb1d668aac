"""From hits to judged units."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.query_facts import with_shared_documents
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.evaluation.units import cut
from rag_assets.ordering import Hits
from rag_assets.retrieval.unit_ranking import Search, UnitRanking
from rag_assets.schemas import column_values
from rag_assets.statistics.paired_differences import (
    PairedDifferences,
    SharedEvidence,
    shared_evidence,
)
from rag_assets.statistics.units import Counted, Floats, Resampling
from tests.labels.health import tables
from tests.made_tables import run_table

Span = tuple[int, int]
Qrel = tuple[str, str, Span | None, int]
"""Evidence, document, span, grade."""

LENGTH = 40


def chunk_table(spans: Sequence[Span]) -> pa.Table:
    return tables.chunks({"d": "x" * 105}, {"d": list(spans)})


def judged(
    qrels: Sequence[Qrel], chunks: pa.Table, judge: str = "evidence"
) -> list[tuple[str, str | None, int]]:
    found = relevant_units(tables.qrels(*(("q", *label) for label in qrels)), chunks, judge)
    return [*column_values(found, "evidence_id", "unit_id", "grade")]


def satisfies(chunk: Span, evidence: Span) -> bool:
    (_, item, _), *_ = judged([("e", "d", evidence, 1)], chunk_table([chunk]))
    return item is not None


@pytest.mark.parametrize(
    ("chunk", "evidence", "expected"),
    [
        ((0, 100), (10, 20), True),  # the chunk holds it all
        ((0, 15), (10, 20), True),  # exactly half of the evidence
        ((0, 14), (10, 20), False),  # 4 of 10, and 4 of the chunk's 14
        ((20, 30), (0, 100), True),  # the chunk lies inside it
        ((95, 105), (0, 100), True),  # exactly half of the chunk
        ((10, 20), (20, 30), False),  # they touch
        ((0, 5), (3, 6), True),  # odd length: 2 of 3
        ((0, 4), (3, 6), False),  # 1 of 3
        ((0, 100), (50, 50), False),  # no evidence
        ((0, 0), (0, 10), False),  # no chunk
    ],
)
def test_half_rules(chunk: Span, evidence: Span, expected: bool) -> None:
    assert satisfies(chunk, evidence) is expected


def test_evidence_over_three_chunks() -> None:
    chunks = chunk_table([(0, 20), (20, 40), (40, 60)])
    # 5 of 35 (and of 20), all of the middle chunk, exactly half of the last one.
    assert judged([("e", "d", (15, 50), 2)], chunks) == [("e", "d#20-40", 2), ("e", "d#40-60", 2)]


def test_whole_document_as_evidence() -> None:
    cut = chunk_table([(0, 10), (10, 20)])
    qrels: list[Qrel] = [("e", "d", None, 3)]
    assert judged(qrels, cut, "evidence") == [("e", "d#0-10", 3), ("e", "d#10-20", 3)]
    assert judged(qrels, cut, "document") == [("e", "d", 3)]
    assert judged(qrels, cut, "chunk") == [("e", None, 3)]
    assert judged(qrels, chunk_table([(0, 0)]), "evidence") == [("e", "d#0-0", 3)]


def test_judged_chunk_ids() -> None:
    qrels: list[Qrel] = [("e1", "d#10-20", None, 2), ("e2", "d#0-99", None, 1)]
    chunks = chunk_table([(0, 10), (10, 20)])
    assert judged(qrels, chunks, "chunk") == [("e1", "d#10-20", 2), ("e2", None, 1)]


SPANS = st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(
    lambda ends: (min(ends), max(ends))
)
QREL_LISTS = st.lists(
    st.tuples(
        st.sampled_from(["e1", "e2", "e3"]), st.just("d"), st.none() | SPANS, st.integers(-1, 3)
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda qrel: (qrel[0], qrel[2]),
)
CHUNKINGS = st.lists(SPANS, min_size=1, max_size=6, unique=True)


@settings(max_examples=80, deadline=None)
@given(QREL_LISTS, CHUNKINGS)
def test_equals_the_definition(qrels: list[Qrel], chunks: list[Span]) -> None:
    expected: dict[tuple[str, str | None], int] = {}
    for evidence, _, span, grade in qrels:
        for start, end in chunks:
            shared = set(range(start, end)) & set(range(*span)) if span else set()
            half_of_evidence = span and shared and 2 * len(shared) >= span[1] - span[0]
            half_of_chunk = shared and 2 * len(shared) >= end - start
            if span is None or half_of_evidence or half_of_chunk:
                key = (evidence, f"d#{start}-{end}")
                expected[key] = max(grade, expected.get(key, grade))
    for evidence in {qrel[0] for qrel in qrels}:
        best = max(grade for e, _, _, grade in qrels if e == evidence)
        if best not in [grade for (e, _), grade in expected.items() if e == evidence]:
            expected[evidence, None] = best
    found = judged(qrels, chunk_table(chunks))
    assert {(evidence, item): grade for evidence, item, grade in found} == expected
    assert len(found) == len(expected)


BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "shared_evidence.py"


def counted(documents: list[list[str]] | None, n: int) -> Counted:
    names = tuple(f"q{number:03}" for number in range(n))
    own = None if documents is None else tuple(documents)
    return Counted("all", names, np.ones(n), names, own)


def test_the_documents_of_queries_that_stand_alone_are_known() -> None:
    counting = [{"query_id": name, "cluster": name} for name in "abc"]
    labels = (("a", "x", 1), ("b", "y", 2), ("b", "x", 1), ("b", "z", 0))
    qrels = tables.qrels(*((query, name, name, None, grade) for query, name, grade in labels))
    shared = [row["documents"] for row in with_shared_documents(counting, qrels)]
    assert shared == [["x"], ["x", "y"], []]
    declared = [{**row, "cluster": "t"} for row in counting]
    assert with_shared_documents(declared, qrels) == declared


def test_the_variance_is_that_of_all_pairs_that_share() -> None:
    """Against the sum over a matrix of pairs, where q0 and q2 share with q1 and not directly."""
    documents = [["x"], ["x", "y"], ["y"], ["z"], [], ["z"], ["w"], ["x"]]
    values = np.random.default_rng(0).normal(size=(8, 3))
    values[4, 1] = np.nan
    found = SharedEvidence(documents).variance(values, np.ones(8))
    share = np.array([[bool({*a} & {*b}) for b in documents] for a in documents], dtype=float)
    np.fill_diagonal(share, 1)
    for number in range(3):
        there = ~np.isnan(values[:, number])
        n, m = int(there.sum()), share[np.ix_(there, there)]
        demean = np.eye(n) - 1 / n
        e, trace = demean @ values[there, number], np.trace(m @ demean)
        assert found.ratio[number] == pytest.approx((e @ m @ e / trace) / (e @ e / (n - 1)))
        assert found.freedom[number] == pytest.approx(trace**2 / np.trace(m @ demean @ m @ demean))


def test_groups_that_share_all_are_so_many_observations() -> None:
    evidence = SharedEvidence([[f"d{number % 12}"] for number in range(72)])
    assert evidence.freedom() == pytest.approx(11)
    assert evidence.caveat() is None


@pytest.mark.parametrize(
    ("n", "documents", "words"),
    [
        (59, 30, "59 questions, some of which share documents, are fewer than 60"),
        (80, 4, "so few documents that they count like 4; only questions on other"),
        (80, 1, "all 80 questions share documents, so this says nothing about questions"),
    ],
)
def test_what_limits_a_claim(n: int, documents: int, words: str) -> None:
    evidence = SharedEvidence([[f"d{number % documents}"] for number in range(n)])
    assert words in str(evidence.caveat())


def test_p_and_interval_allow_for_what_is_shared() -> None:
    """Ten questions of a document do the same: they are ten documents, not a hundred questions."""
    random = np.random.default_rng(3)
    of_documents: Floats = random.normal(0.6, 1, 10)
    values = np.repeat(of_documents, 10)[:, None] + random.normal(0, 0.1, (100, 1))
    documents = [[f"d{number // 10}"] for number in range(100)]
    alone, ours = (PairedDifferences(counted(own, 100), values) for own in (None, documents))
    p, allowed = (one.p_values(Resampling())[0] for one in (alone, ours))
    assert p is not None
    assert allowed is not None
    assert p < 0.01 < 0.05 < allowed
    assert alone.inflations(0.95) == [1.0]
    assert ours.inflations(0.95)[0] > 9
    assert shared_evidence(counted([["a"], ["b"]], 2)) is None


def test_what_wins_every_question_is_shown_however_many_share_documents() -> None:
    values = np.concatenate([np.full(82, 0.3), np.zeros(11)])[:, None]
    documents = [["popular", f"d{number}"] if number % 2 else ["popular"] for number in range(93)]
    (p,) = PairedDifferences(counted(documents, 93), values).p_values(Resampling())
    assert p == 2 * 2.0**-82
    values[-1] = -0.01
    (p,) = PairedDifferences(counted(documents, 93), values).p_values(Resampling())
    assert p is not None
    assert p > 1e-5


@pytest.mark.parametrize("name", ["cranfield", "made"])
def test_false_alarms_are_few_and_a_difference_is_found(name: str) -> None:
    benchmark: dict[str, Any] = runpy.run_path(str(BENCHMARK))
    if name == "cranfield" and not benchmark["CRANFIELD"].exists():
        pytest.skip("there is no Cranfield collection here")
    documents = benchmark[name]()[:93]
    for effect, true, least, most in ((0, 0, 0, 0.07), (1, 0, 0, 0.07), (0, 0.3, 0.72, 1)):
        values = benchmark["differences"](documents, effect, true, 500)
        alone, ours = benchmark["found"](documents, values)
        assert least <= ours <= most
        assert ours <= alone


# "a!" is before "a#" in bytes, so the order of these documents is not the order of their chunks.
SEVEN = ["a", "a!", "a#", "b", "\u00e9", "\U0001f600", "Z"]
CHUNK_IDS = [(f"{document}#{n}-{n + 1}", document) for document in SEVEN for n in range(4)]
# Few values: many ties; None is a chunk that the search does not find.
SCORES = st.lists(
    st.sampled_from([None, -1.0, 0.5, 1.0, 2.0]), min_size=len(CHUNK_IDS), max_size=len(CHUNK_IDS)
)


def chunks_of(ids: Sequence[tuple[str, str]]) -> pa.Table:
    return pa.table(dict(zip(("chunk_id", "document_id"), zip(*ids, strict=True), strict=True)))


def by_score(pairs: Sequence[tuple[float, str]]) -> list[int]:
    """Numbers of (score, id) pairs, best first, by the one order of rankings."""
    key = [(score, name.encode()) for score, name in pairs]
    return sorted(range(len(pairs)), key=key.__getitem__, reverse=True)


class ExactSearch:
    """An exact search over given scores, one list a query; remembers what it was asked for."""

    def __init__(self, scores: Sequence[Sequence[float | None]], ids: Sequence[str]) -> None:
        self.scores, self.ids = scores, ids
        self.asked: list[tuple[list[int], int]] = []

    def __call__(self, queries: Sequence[int], depth: int) -> list[Hits]:
        self.asked.append((list(queries), depth))
        return [self._hits(self.scores[query], depth) for query in queries]

    def _hits(self, scores: Sequence[float | None], depth: int) -> Hits:
        found = [(n, score) for n, score in enumerate(scores) if score is not None]
        order = by_score([(score, self.ids[n]) for n, score in found])[:depth]
        positions = np.array([found[i][0] for i in order], dtype=np.int64)
        return Hits(positions, np.array([found[i][1] for i in order], dtype=np.float64))


def naive_documents(scores: Sequence[float | None], depth: int) -> list[tuple[str, float, str]]:
    """Rank all documents by their best chunk: (document, score, chunk)."""
    best: dict[str, tuple[float, bytes, str]] = {}
    for (chunk, document), score in zip(CHUNK_IDS, scores, strict=True):
        if score is not None:
            entry = (score, chunk.encode(), chunk)
            best[document] = max(entry, best.get(document, entry))
    names = list(best)
    order = by_score([(best[name][0], name) for name in names])[:depth]
    return [(names[i], best[names[i]][0], best[names[i]][2]) for i in order]


@settings(max_examples=150, deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=4), st.integers(1, 9))
def test_documents_are_exactly_the_naive_ranking(
    scores: list[list[float | None]], depth: int
) -> None:
    search: Search = ExactSearch(scores, [chunk for chunk, _ in CHUNK_IDS])
    names = [f"q{n}" for n in range(len(scores))]
    table = UnitRanking(search, chunks_of(CHUNK_IDS), "document").table(names, depth)
    expected = [
        (name, rank, score, document, chunk, document)
        for name, values in zip(names, scores, strict=True)
        for rank, (document, score, chunk) in enumerate(naive_documents(values, depth), 1)
    ]
    assert [tuple(row.values()) for row in table.to_pylist()] == expected


def test_tie_across_the_cut_is_searched_to_its_end() -> None:
    """All chunks tie; the best document by id owns the chunk that is last by id."""
    ids = [(f"c{n:03d}", f"d{99 - n:02d}") for n in range(100)]
    search = ExactSearch([[1.0] * 100], [chunk for chunk, _ in ids])
    table = UnitRanking(search, chunks_of(ids), "document").table(["q"], 2)
    assert table["unit_id"].to_pylist() == ["d99", "d98"]
    assert [depth for _, depth in search.asked] == [2, 8, 32, 100]


def test_cut_keeps_the_first_ranks_of_every_query() -> None:
    table = cut(run_table({"q1": ["a", "b", "c"], "q2": ["d"]}), 2)
    assert [*column_values(table, "query_id", "unit_id")] == [("q1", "a"), ("q1", "b"), ("q2", "d")]
