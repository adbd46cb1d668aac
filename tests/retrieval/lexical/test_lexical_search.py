"""Order and hits of lexical retrievers."""

from __future__ import annotations

import gc
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.retrieval.lexical.analyzers import analyze_all
from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.tfidf import TfIdf
from rag_assets.retrieval.lexical.words import WordIndex
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from tests.retrieval.lexical.index_of_texts import bm25, build_index, opened, tfidf

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
        return opened(Path(folder), variant=variant)


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


@pytest.mark.parametrize("variant", ["lucene", "okapi"])
def test_queries_without_a_known_token_have_no_hits(variant: str) -> None:
    index = index_of({"a": "pump", "b": "valve", "c": "oil"}, variant=variant)
    assert rankings(index, ["", "the of", "unknown words", "\U0001f600"], 3) == [[], [], [], []]
    assert rankings(index, [], 3) == []


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
    index_of({"a": "pump"}).search(["pump"] * 3, 1, done.append)
    assert done == [1, 2, 3]


WEIGHTINGS = ("raw", "length_normalised", "saturated", "sklearn")
TEXTS = {
    "b": "Die Pumpe KFP-30417 wird gek\u00fchlt",
    "a": "Die Pumpen KFP-30418 und das Ventil 30417",
    "\u00e9": "K\u00fchlung der Mannschaft",
    "c": "",
    "d": "Die Pumpe KFP-30417 wird gek\u00fchlt",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "lucene": {"type": "bm25"},
    "robertson": {"type": "bm25", "variant": "robertson"},
    "bm25l": {"type": "bm25", "variant": "bm25l"},
    "plus": {"type": "bm25", "variant": "bm25plus"},
    **{name: {"type": "tfidf", "weighting": name} for name in WEIGHTINGS},
    "german": {"type": "tfidf", "analyzer": "german"},
    "feedback": {"type": "bm25", "expand": {"type": "rm3", "documents": 2}},
}


def retriever(options: dict[str, Any]) -> BM25 | TfIdf:
    kind = RETRIEVER_TYPES[options["type"]]
    made = kind(**options)
    assert isinstance(made, BM25 | TfIdf)
    return made


def build(options: dict[str, Any], texts: dict[str, str], folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    chunks = pa.table({"chunk_id": pa.array(list(texts), pa.string())})
    retriever(options).build(chunks, list(texts.values()), folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def ranking(options: dict[str, Any], folder: Path, query: str, k: int) -> list[tuple[str, float]]:
    index = retriever(options).open(folder)
    (hits,) = index.search([query], k, None)
    found = zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)
    return [(index.chunk_ids[position], score) for position, score in found]


@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS.keys())
def test_equal_chunks_give_equal_bytes_and_plain_files(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    one = build(options, TEXTS, tmp_path / "one")
    assert one == build(options, dict(reversed(TEXTS.items())), tmp_path / "two")
    for name in one:
        assert Path(name).suffix in {".json", ".npy", ".parquet"}
        if name.endswith(".npy"):
            np.load(tmp_path / "one" / name, allow_pickle=False)  # raises for pickled objects


@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS.keys())
def test_order_and_hits(tmp_path: Path, options: dict[str, Any]) -> None:
    build(options, TEXTS, tmp_path / "index")
    found = ranking(options, tmp_path / "index", "30417", 10)
    ids = [chunk for chunk, _ in found]
    assert found == sorted(found, key=lambda hit: (hit[1], hit[0].encode()), reverse=True)
    # robertson: in three of five chunks, which is more than half
    assert set(ids) == (set() if options.get("variant") == "robertson" else {"a", "b", "d"})
    assert ranking(options, tmp_path / "index", "30417", 1) == found[:1]
    assert ranking(options, tmp_path / "index", "unknown", 10) == []


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
