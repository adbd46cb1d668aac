from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_assets.retrieval.lexical.rank_bm25_engine import RankBm25Engine
from rag_assets.retrieval.lexical.token_counts import ChunkTokens

TOKENS = st.lists(st.sampled_from("abcdefg"), max_size=12)
CORPORA = st.lists(TOKENS, min_size=1, max_size=12).filter(any)


@given(CORPORA, st.lists(st.sampled_from("abcdefgxyz"), max_size=8))
def test_scores_are_those_of_the_package(chunks: list[list[str]], query: list[str]) -> None:
    expected = BM25Okapi(chunks, k1=1.2, b=0.75, epsilon=0.25).get_scores(query)
    engine = RankBm25Engine.build(ChunkTokens.of(chunks), 1.2, 0.75)
    np.testing.assert_array_equal(engine.scores(query), expected)


def test_saved_and_loaded_it_scores_the_same(tmp_path: Path) -> None:
    built = RankBm25Engine.build(
        ChunkTokens.of([["a", "b", "\u65e5"], [], ["b", "b"], ["c"]]), 0.9, 0.4
    )
    built.save(tmp_path)
    loaded = RankBm25Engine.load(tmp_path)
    assert loaded.vocabulary_size == built.vocabulary_size == 4
    for query in (["a"], ["b", "\u65e5"], ["x"], []):
        np.testing.assert_array_equal(loaded.scores(query), built.scores(query))


@pytest.mark.parametrize("chunks", [[], [[]], [[], [], []]])
def test_no_tokens_at_all(tmp_path: Path, chunks: list[list[str]]) -> None:
    built = RankBm25Engine.build(ChunkTokens.of(chunks), 1.2, 0.75)
    built.save(tmp_path)
    for engine in (built, RankBm25Engine.load(tmp_path)):
        assert engine.vocabulary_size == 0
        assert engine.scores(["a"]).tolist() == [0.0] * len(chunks)
