"""Order and hits of lexical retrievers."""

from __future__ import annotations

import gc
import tempfile
import weakref
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.retrieval.lexical.analyzers import analyze_all
from rag_assets.retrieval.lexical.words import WordIndex
from tests.retrieval.lexical.index_of_texts import bm25, build_index, opened, tfidf

WORDS = st.lists(st.sampled_from(["pump", "valve", "crew", "oil"]), max_size=4).map(" ".join)
CORPORA = st.dictionaries(st.text(min_size=1, max_size=3), WORDS, max_size=30)
Ranking = list[tuple[str, float]]


def index_of(texts: dict[str, str], variant: str = "lucene") -> WordIndex:
    with tempfile.TemporaryDirectory() as name:
        folder, options = Path(name), {"variant": variant, "analyzer": "english"}
        build_index(list(texts), list(texts.values()), folder=folder, **options)
        return opened(folder, variant=variant)


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
    scores = index.scores(analyze_all("english", [query])[0])
    scored = list(zip(index.chunk_ids, scores.tolist(), strict=True))
    above_zero = [pair for pair in scored if pair[1] > 0]
    naive = sorted(above_zero, key=lambda pair: (pair[1], pair[0].encode()), reverse=True)
    assert rankings(index, [query], k) == [naive[:k]]


def test_k_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="k is 0"):
        index_of({"a": "pump"}).search(["pump"], 0)


def test_okapi_drops_chunks_that_its_idf_scores_at_zero_or_below() -> None:
    half = {"a": "pump", "b": "valve"}  # in exactly half of the chunks: idf = ln 1 = 0
    assert rankings(index_of(half, variant="okapi"), ["pump"], 5) == [[]]
    everywhere = {"a": "pump", "b": "pump"}  # the mean idf is negative, and so is its epsilon part
    assert rankings(index_of(everywhere, variant="okapi"), ["pump"], 5) == [[]]
    assert [chunk for chunk, _ in rankings(index_of(everywhere), ["pump"], 5)[0]] == ["b", "a"]


@pytest.mark.parametrize("variant", ["lucene", "okapi", "sklearn"])
def test_an_index_takes_its_memory_along_when_it_goes(
    monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    """Not only when Python looks for garbage: the next index is opened before."""
    monkeypatch.setattr("rag_assets.retrieval.lexical.weighed_word.COUNTED_FROM", (0, 0))
    chunks = [["pump", "valve"], ["valve"], ["crew"]]
    index = tfidf(chunks, variant) if variant == "sklearn" else bm25(chunks, variant=variant)
    assert [len(hits.positions) for hits in index.search(["valve pump", "crew"], 2)] == [2, 1]
    gone = weakref.ref(index)
    gc.disable()
    try:
        del index
        assert gone() is None
    finally:
        gc.enable()
