from __future__ import annotations

import math
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_assets.retrieval.lexical.builtin_engine import BuiltinEngine
from rag_assets.retrieval.lexical.token_counts import ChunkTokens

TOKENS = st.lists(st.sampled_from("abcdefg"), max_size=12)
CORPORA = st.lists(TOKENS, min_size=1, max_size=12).filter(any)
K1 = st.sampled_from([0.0, 0.9, 1.2, 2.0])
B = st.sampled_from([0.0, 0.4, 0.75, 1.0])


def test_worked_example() -> None:
    chunks = [["cat", "sat"], ["cat", "cat", "dog", "mat"], ["dog", "ran", "far"]]
    scores = BuiltinEngine.build(ChunkTokens.of(chunks), k1=1.2, b=0.75).scores(["cat"])
    # 3 chunks of 2, 4 and 3 tokens, 3 on average; "cat" is in 2 of them
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # ln 1.6 = 0.470004
    first = idf * 1 / (1 + 1.2 * (1 - 0.75 + 0.75 * 2 / 3))  # idf * 1 / 1.9
    second = idf * 2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 4 / 3))  # idf * 2 / 3.5
    assert scores.tolist() == pytest.approx([first, second, 0.0], rel=1e-15)
    assert scores.tolist() == pytest.approx([0.247370, 0.268574, 0.0], abs=1e-6)


@given(CORPORA, TOKENS, K1, B)
def test_equal_to_rank_bm25_with_the_idf_of_lucene(
    chunks: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    oracle = BM25Okapi(chunks, k1=k1, b=b)
    for token in oracle.idf:
        n = sum(token in chunk for chunk in chunks)
        oracle.idf[token] = math.log(1 + (len(chunks) - n + 0.5) / (n + 0.5))
    # rank_bm25 computes 0 / 0 for an absent token when k1 is 0; its score is 0
    with np.errstate(invalid="ignore"):
        expected = np.array(
            [np.nan_to_num(oracle.get_scores([token])) for token in query]
            or [np.zeros(len(chunks))]
        ).sum(axis=0)
    scores = BuiltinEngine.build(ChunkTokens.of(chunks), k1, b).scores(query)
    np.testing.assert_allclose(scores, expected / (k1 + 1), rtol=1e-12)


@given(CORPORA, st.lists(st.sampled_from("abcdefgxyz"), min_size=1, max_size=12), K1, B)
def test_equal_to_bm25s_bit_for_bit(
    chunks: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    numbers = {token: i for i, token in enumerate("gfedcba")}
    reference = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64")
    corpus = [[numbers[token] for token in chunk] for chunk in chunks]
    reference.index((corpus, numbers), show_progress=False)
    scores = BuiltinEngine.build(ChunkTokens.of(chunks), k1, b).scores(query)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, reference.get_scores(query))


def test_a_repeated_token_counts_as_often_as_it_occurs() -> None:
    engine = BuiltinEngine.build(ChunkTokens.of([["a", "b"], ["b"], ["c"]]), 1.2, 0.75)
    np.testing.assert_allclose(engine.scores(["a", "b", "b"]), engine.scores(["b", "a", "b"]))
    expected = engine.scores(["a"]) + 2 * engine.scores(["b"])
    np.testing.assert_allclose(engine.scores(["a", "b", "b"]), expected, rtol=1e-15)


@pytest.mark.parametrize("mmap", [True, False])
def test_saved_and_loaded_it_scores_the_same(tmp_path: Path, mmap: bool) -> None:
    chunks = [["a", "b", "\u65e5"], [], ["b", "b"]]
    built = BuiltinEngine.build(ChunkTokens.of(chunks), 0.9, 0.4)
    built.save(tmp_path)
    loaded = BuiltinEngine.load(tmp_path, mmap=mmap)
    assert (loaded.k1, loaded.b, loaded.vocabulary) == (0.9, 0.4, built.vocabulary)
    for query in (["a"], ["b", "\u65e5"], ["x"], []):
        np.testing.assert_array_equal(loaded.scores(query), built.scores(query))


def test_bm25s_opens_the_folder(tmp_path: Path) -> None:
    built = BuiltinEngine.build(ChunkTokens.of([["a", "b"], ["b", "c"], ["c"]]), 1.2, 0.75)
    built.save(tmp_path)
    opened = bm25s.BM25.load(tmp_path)
    np.testing.assert_array_equal(opened.get_scores(["c", "b"]), built.scores(["c", "b"]))


@pytest.mark.parametrize("chunks", [[], [[]], [[], [], []]])
def test_no_tokens_at_all(tmp_path: Path, chunks: list[list[str]]) -> None:
    built = BuiltinEngine.build(ChunkTokens.of(chunks), 1.2, 0.75)
    built.save(tmp_path)
    for engine in (built, BuiltinEngine.load(tmp_path)):
        assert engine.vocabulary_size == 0
        assert engine.scores(["a"]).tolist() == [0.0] * len(chunks)
