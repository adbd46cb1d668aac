"""Pseudo-relevance feedback against arithmetic that is written out."""

from __future__ import annotations

from functools import partial
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.ordering import Hits
from rag_assets.retrieval.lexical.bm25 import FeedbackSearcher, TermVectors, expanded
from rag_assets.retrieval.lexical.tokens import ChunkTokens
from rag_assets.retrieval.lexical.words import WordIndex
from rag_assets.retrieval.retriever import Rm3Expansion
from tests.retrieval.lexical.index_of_texts import build_index

Feedback = partial(Rm3Expansion, type="rm3")

TEXTS = {"a": "dog dog fare crown", "b": "dog leash", "c": "leash rope", "d": "crown king", "e": ""}


def index(folder: Path) -> tuple[WordIndex, TermVectors]:
    folder.mkdir(exist_ok=True)
    build_index(
        list(TEXTS),
        list(TEXTS.values()),
        analyzer="whitespace",
        b=0.0,
        folder=folder,
        expand={"type": "rm3"},
    )
    return WordIndex.load(folder), TermVectors.load(folder)


def test_term_vectors_are_counts(tmp_path: Path) -> None:
    _, vectors = index(tmp_path)
    assert vectors.of_chunk(0) == {"crown": 1, "dog": 2, "fare": 1}
    assert vectors.of_chunk(2) == {"leash": 1, "rope": 1}
    assert vectors.of_chunk(4) == {}


def test_weights_of_an_expanded_query() -> None:
    vectors = TermVectors.of(ChunkTokens.joined([[text.split() for text in TEXTS.values()]]))
    hits = Hits(np.array([0, 1]), np.array([3.0, 1.0]))
    # a holds dog 1/2, fare 1/4, crown 1/4 and counts 3 times as much as b: dog 1/2, leash 1/2.
    # dog 3 * 1/2 + 1/2 = 2, crown and fare 3/4 each, leash 1/2; of the best three the sum is 3.5.
    weights = expanded(
        ["dog", "rope"], hits, vectors, Feedback(documents=2, terms=3, original_weight=0.6)
    )
    assert weights == pytest.approx(
        {
            "crown": 0.4 * 0.75 / 3.5,
            "dog": 0.6 * 0.5 + 0.4 * 2 / 3.5,
            "fare": 0.4 * 0.75 / 3.5,
            "rope": 0.6 * 0.5,
        }
    )
    assert list(weights) == sorted(weights)


def test_a_chunk_without_a_word_of_the_query_is_found(tmp_path: Path) -> None:
    one, vectors = index(tmp_path)
    (plain,) = one.search(["fare"], 9)
    (grown,) = FeedbackSearcher(one.chunk_ids, one, vectors, Feedback(documents=1)).search(
        ["fare"], 9
    )
    assert plain.positions.tolist() == [0]
    assert grown.positions.tolist()[0] == 0
    # "dog" and "crown" stand beside "fare", so those that hold one are found, the rest is not.
    assert set(grown.positions.tolist()) == {0, 1, 3}


def test_the_score_is_the_weighted_sum(tmp_path: Path) -> None:
    one, vectors = index(tmp_path)
    (grown,) = FeedbackSearcher(one.chunk_ids, one, vectors, Feedback(documents=1)).search(
        ["fare"], 9
    )
    # With b 0 a word that occurs once weighs idf / 2.2; dog and crown are in two of five chunks.
    # From a: dog 1/2, fare 1/4, crown 1/4, each by half.
    both = log(1 + 3.5 / 2.5)
    assert dict(zip(grown.positions.tolist(), grown.scores.tolist(), strict=True)) == pytest.approx(
        {
            0: 0.25 * both * 2 / 3.2 + 0.625 * log(1 + 4.5 / 1.5) / 2.2 + 0.125 * both / 2.2,
            1: 0.25 * both / 2.2,
            3: 0.125 * both / 2.2,
        }
    )


@given(st.lists(st.sampled_from(["dog", "leash", "rope", "crown", "none"]), min_size=1, max_size=6))
def test_with_all_weight_on_the_query_the_order_stays(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    one, vectors = index(tmp_path_factory.getbasetemp() / "shared")
    query = " ".join(words)
    (plain,) = one.search([query], 9)
    feedback = Feedback(documents=2, terms=5, original_weight=1.0)
    (grown,) = FeedbackSearcher(one.chunk_ids, one, vectors, feedback).search([query], 9)
    assert grown.positions.tolist() == plain.positions.tolist()
    assert grown.scores * len(words) == pytest.approx(plain.scores)


def test_a_query_without_hits_has_none(tmp_path: Path) -> None:
    one, vectors = index(tmp_path)
    found = FeedbackSearcher(one.chunk_ids, one, vectors, Feedback()).search(["zzz", ""], 9)
    assert [hits.positions.tolist() for hits in found] == [[], []]
