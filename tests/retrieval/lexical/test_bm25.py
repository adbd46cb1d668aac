"""BM25, TF-IDF and feedback."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from math import log

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_assets.ordering import Hits
from rag_assets.retrieval.base import Rm3Expansion
from rag_assets.retrieval.lexical import words
from rag_assets.retrieval.lexical.bm25 import FeedbackSearcher, TokensOf, expanded, tokens_of
from rag_assets.retrieval.lexical.chunk_tokens import ChunkTokens
from rag_assets.retrieval.lexical.words import WordIndex
from tests.retrieval.lexical.index_of_texts import bm25, build_index, opened, tfidf

FORMULAS = ("lucene", "robertson", "atire", "bm25l", "bm25plus")
WEIGHTINGS = ("raw", "length_normalised", "saturated", "sklearn")
TOKENS = st.lists(st.sampled_from("abcdefg"), max_size=12)
QUERIES = st.lists(st.sampled_from("abcdefgxyz"), max_size=6)
CORPORA = st.lists(TOKENS, min_size=1, max_size=12).filter(any)
K1 = st.sampled_from([0.0, 0.9, 1.2, 2.0])
B_BELOW_1 = st.sampled_from([0.0, 0.4, 0.75])
"""At 1 the package divides 0 by 0 for an empty chunk."""
B = st.sampled_from([0.0, 0.4, 0.75, 1.0])


def by_the_formula(
    variant: str, chunks: list[list[str]], query: list[str], k1: float, b: float, delta: float
) -> list[float]:
    mean = sum(map(len, chunks)) / len(chunks)

    def score(chunk: list[str], token: str) -> float:
        f, norm = Counter(chunk)[token], 1 - b + b * len(chunk) / mean
        n_chunks, n = len(chunks), sum(token in each for each in chunks)
        odds, c = (n_chunks - n + 0.5) / (n + 0.5), f / norm
        return {
            "lucene": lambda: math.log(1 + odds) * f / (f + k1 * norm),
            "robertson": lambda: max(0.0, math.log(odds)) * f / (f + k1 * norm),
            "atire": lambda: math.log(n_chunks / n) * (k1 + 1) * f / (f + k1 * norm),
            "bm25l": lambda: (
                math.log((n_chunks + 1) / (n + 0.5)) * (k1 + 1) * (c + delta) / (k1 + c + delta)
            ),
            "bm25plus": lambda: (
                math.log((n_chunks + 1) / n) * ((k1 + 1) * f / (f + k1 * norm) + delta)
            ),
        }[variant]()

    return [sum(score(chunk, t) for t in query if t in chunk) for chunk in chunks]


@settings(deadline=None)
@given(CORPORA, QUERIES, K1, B, st.sampled_from([0.25, 0.5, 1.0]), st.sampled_from(FORMULAS))
def test_scores_are_those_of_the_formulas(
    chunks: list[list[str]], query: list[str], k1: float, b: float, delta: float, variant: str
) -> None:
    own = delta if variant in {"bm25l", "bm25plus"} else None
    scores = bm25(chunks, k1=k1, b=b, variant=variant, delta=own).scores(query)
    expected = by_the_formula(variant, chunks, query, k1, b, delta)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=0)


@given(
    CORPORA,
    st.lists(st.sampled_from("abcdefgxyz"), max_size=8),
    st.sampled_from([0.9, 1.2]),
    B_BELOW_1,
)
def test_scores_are_those_of_the_package(
    chunks: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    expected = BM25Okapi(chunks, k1=k1, b=b, epsilon=0.25).get_scores(query)
    scores = bm25(chunks, variant="okapi", k1=k1, b=b).scores(query)
    np.testing.assert_array_equal(scores, expected)


@given(
    CORPORA,
    st.lists(st.sampled_from("abcdefgxyz"), min_size=1, max_size=12),
    K1,
    B,
    st.sampled_from(["lucene", "robertson", "atire"]),
)
def test_equal_to_bm25s_bit_for_bit(
    chunks: list[list[str]], query: list[str], k1: float, b: float, variant: str
) -> None:
    numbers = {token: i for i, token in enumerate("gfedcba")}
    reference = bm25s.BM25(k1=k1, b=b, method=variant, dtype="float64")
    corpus = [[numbers[token] for token in chunk] for chunk in chunks]
    reference.index((corpus, numbers), show_progress=False)
    scores = bm25(chunks, k1=k1, b=b, variant=variant).scores(query)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, reference.get_scores(query))


def test_worked_example() -> None:
    chunks = [["cat", "sat"], ["cat", "cat", "dog", "mat"], ["dog", "ran", "far"]]
    scores = bm25(chunks).scores(["cat"])
    # 3 chunks of 2, 4 and 3 tokens, 3 on average; "cat" is in 2 of them
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # ln 1.6 = 0.470004
    first = idf * 1 / (1 + 1.2 * (1 - 0.75 + 0.75 * 2 / 3))  # idf * 1 / 1.9
    second = idf * 2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 4 / 3))  # idf * 2 / 3.5
    assert scores.tolist() == pytest.approx([first, second, 0.0], rel=1e-15)
    assert scores.tolist() == pytest.approx([0.247370, 0.268574, 0.0], abs=1e-6)


VARIANTS = (*FORMULAS, "okapi")
ENDS = st.lists(st.integers(0, 12), max_size=4)


@settings(deadline=None)
@given(CORPORA, ENDS, QUERIES, st.sampled_from([*VARIANTS, *WEIGHTINGS]))
def test_segments_give_the_bits_of_one(
    chunks: list[list[str]], cuts: list[int], query: list[str], formula: str
) -> None:
    ends = sorted(min(cut, len(chunks)) for cut in cuts)
    if formula in VARIANTS:
        whole, parts = (bm25(chunks, each, variant=formula) for each in ([], ends))
    else:
        whole, parts = (tfidf(chunks, formula, None, each) for each in ([], ends))
    assert [*parts.chunk_ids] == [*whole.chunk_ids]
    parts.read([" ".join(query[1:])])  # weighs these words together
    for _ in range(2):  # the second time the weights are those that were kept
        assert parts.scores(query).tobytes() == whole.scores(query).tobytes()


def test_weights_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_BYTES", 2_500)
    chunks = [list("aab"), list("bccc"), list("adde"), list("e"), list("ebb")]
    index, whole = bm25(chunks), bm25(chunks).scores(list("abcde")).tobytes()
    assert index.scores(list("abcde")).tobytes() == whole
    assert index.scores(list("abcde")).tobytes() == whole
    assert [*index._words] == ["d", "e"]  # those used last


Feedback = partial(Rm3Expansion, type="rm3")

TEXTS = {"a": "dog dog fare crown", "b": "dog leash", "c": "leash rope", "d": "crown king", "e": ""}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[WordIndex, TokensOf]:
    folder, expand = tmp_path_factory.mktemp("index"), {"type": "rm3"}
    texts = list(TEXTS.values())
    build_index(list(TEXTS), texts, analyzer="whitespace", b=0.0, folder=folder, expand=expand)
    found = opened(folder, b=0.0)
    return found, tokens_of(found, folder)


def test_weights_of_an_expanded_query() -> None:
    vectors = ChunkTokens.joined([[text.split() for text in TEXTS.values()]])
    hits = Hits(np.array([0, 1]), np.array([3.0, 1.0]))
    # a holds dog 1/2, fare 1/4, crown 1/4 and counts 3 times as much as b: dog 1/2, leash 1/2.
    # dog 3 * 1/2 + 1/2 = 2, crown and fare 3/4 each, leash 1/2; of the best three the sum is 3.5.
    weights = expanded(
        ["dog", "rope"], hits, vectors.of_chunk, Feedback(documents=2, terms=3, original_weight=0.6)
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


def test_the_score_is_the_weighted_sum(indexed: tuple[WordIndex, TokensOf]) -> None:
    one, vectors = indexed
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
    indexed: tuple[WordIndex, TokensOf], words: list[str]
) -> None:
    one, vectors = indexed
    query = " ".join(words)
    (plain,) = one.search([query], 9)
    feedback = Feedback(documents=2, terms=5, original_weight=1.0)
    (grown,) = FeedbackSearcher(one.chunk_ids, one, vectors, feedback).search([query], 9)
    assert grown.positions.tolist() == plain.positions.tolist()
    assert grown.scores * len(words) == pytest.approx(plain.scores)


def dogs() -> list[list[str]]:
    """Return documents of 5, 25 and 4 words with 1, 3 and 0 "dogs"."""
    counts = ((1, 5), (3, 25), (0, 4))
    return [["dogs"] * f + [f"w{n}.{i}" for i in range(n - f)] for f, n in counts]


def test_worked_example_of_dogs() -> None:
    """log10(3 / 2) = 0.176; the slide prints 0.0212 for 0.528 / 25."""
    raw = tfidf(dogs(), "raw").scores(["dogs"])
    assert raw.tolist() == pytest.approx([0.176, 0.528, 0], abs=5e-4)
    assert raw.tolist() == pytest.approx([math.log10(1.5), 3 * math.log10(1.5), 0], rel=1e-15)
    normalised = tfidf(dogs(), "length_normalised").scores(["dogs"])
    assert normalised.tolist() == pytest.approx([0.0352, 0.0211, 0], abs=5e-5)
    assert np.argsort(-raw)[0] == 1
    assert np.argsort(-normalised)[0] == 0


def weighted_by_the_formula(
    weighting: str, chunks: list[list[str]], query: list[str], k1: float
) -> list[float]:
    totals = []
    for chunk in chunks:
        total = 0.0
        for token in query:
            f, n = chunk.count(token), sum(token in each for each in chunks)
            if f:
                factor = {"raw": f, "length_normalised": f / len(chunk), "saturated": f / (f + k1)}
                total += factor[weighting] * math.log10(len(chunks) / n)
        totals.append(total)
    return totals


@settings(deadline=None)
@given(CORPORA, QUERIES, st.sampled_from([0.5, 1.2]), st.sampled_from(WEIGHTINGS[:3]))
def test_against_the_formulas(
    chunks: list[list[str]], query: list[str], k1: float, weighting: str
) -> None:
    scores = tfidf(chunks, weighting, k1 if weighting == "saturated" else None).scores(query)
    np.testing.assert_allclose(
        scores, weighted_by_the_formula(weighting, chunks, query, k1), rtol=1e-12
    )


@settings(deadline=None, max_examples=50)
@given(CORPORA, QUERIES)
def test_against_scikit_learn(chunks: list[list[str]], query: list[str]) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    vectorizer = text.TfidfVectorizer(analyzer=lambda tokens: tokens)
    expected = (vectorizer.fit_transform(chunks) @ vectorizer.transform([query]).T).toarray()[:, 0]
    scores = tfidf(chunks, "sklearn").scores(query)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-15)
