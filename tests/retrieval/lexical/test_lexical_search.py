from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.retrieval.lexical.analyzers import analyze
from rag_assets.retrieval.lexical.words import WordIndex
from tests.retrieval.lexical.index_of_texts import build_index

WORDS = st.lists(st.sampled_from(["pump", "valve", "crew", "oil"]), max_size=4).map(" ".join)
CORPORA = st.dictionaries(st.text(min_size=1, max_size=3), WORDS, max_size=30)
Ranking = list[tuple[str, float]]


def index_of(
    texts: dict[str, str], analyzer: str = "english", variant: str = "lucene"
) -> WordIndex:
    with tempfile.TemporaryDirectory() as folder:
        build_index(
            list(texts),
            list(texts.values()),
            variant=variant,
            analyzer=analyzer,
            folder=Path(folder),
        )
        return WordIndex.load(Path(folder))


def rankings(index: WordIndex, queries: list[str], k: int) -> list[Ranking]:
    return [
        [
            (index.chunk_ids[position], score)
            for position, score in zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)
        ]
        for hits in index.search(queries, k)
    ]


@settings(deadline=None)
@given(CORPORA, WORDS, st.integers(1, 40), st.sampled_from(["lucene", "okapi"]))
def test_exact_order_against_a_naive_sort(
    texts: dict[str, str], query: str, k: int, variant: str
) -> None:
    index = index_of(texts, variant=variant)
    scores = index.scores(analyze("english", query))
    scored = list(zip(index.chunk_ids, scores.tolist(), strict=True))
    above_zero = [pair for pair in scored if pair[1] > 0]
    naive = sorted(above_zero, key=lambda pair: (pair[1], pair[0].encode()), reverse=True)
    assert rankings(index, [query], k) == [naive[:k]]


def test_chunks_without_a_matching_token_are_no_hits() -> None:
    texts = {"a": "pump", "b": "valve", "c": "the crew"}
    assert [chunk for chunk, _ in rankings(index_of(texts), ["pump oil"], 3)[0]] == ["a"]


@pytest.mark.parametrize("variant", ["lucene", "okapi"])
def test_queries_without_a_known_token_have_no_hits(variant: str) -> None:
    index = index_of({"a": "pump", "b": "valve", "c": "oil"}, variant=variant)
    assert rankings(index, ["", "the of", "unknown words", "\U0001f600"], 3) == [[], [], [], []]
    assert rankings(index, [], 3) == []


def test_k_is_clipped_and_larger_k_extends_the_ranking() -> None:
    texts = {f"d{i}": "pump " * (i % 4 + 1) + "crew oil" for i in range(50)}
    index = index_of(texts)
    deepest = rankings(index, ["pump crew"], 1000)[0]
    assert len(deepest) == 50
    assert all(rankings(index, ["pump crew"], k)[0] == deepest[:k] for k in range(1, 51))


def test_k_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="k is 0"):
        index_of({"a": "pump"}).search(["pump"], 0)


def test_okapi_drops_chunks_that_its_idf_scores_at_zero_or_below() -> None:
    half = {"a": "pump", "b": "valve"}  # in exactly half of the chunks: idf = ln 1 = 0
    assert rankings(index_of(half, variant="okapi"), ["pump"], 5) == [[]]
    everywhere = {"a": "pump", "b": "pump"}  # the mean idf is negative, and so is its epsilon part
    assert rankings(index_of(everywhere, variant="okapi"), ["pump"], 5) == [[]]
    assert [chunk for chunk, _ in rankings(index_of(everywhere), ["pump"], 5)[0]] == ["b", "a"]


def test_progress_counts_queries_up_to_the_last() -> None:
    done: list[int] = []
    index_of({"a": "pump"}).search(["pump"] * 250, 1, done.append)
    assert done == [100, 200, 250]
