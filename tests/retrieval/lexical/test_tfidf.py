from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.lexical.index_of_texts import tfidf

WEIGHTINGS = ("raw", "length_normalised", "saturated", "sklearn")

TOKENS = st.lists(st.sampled_from("abcdefg"), max_size=12)
QUERIES = st.lists(st.sampled_from("abcdefgxyz"), max_size=6)
CORPORA = st.lists(TOKENS, min_size=1, max_size=10).filter(any)


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


def test_worked_example_of_saturation() -> None:
    saturated = tfidf(dogs(), "saturated", 1.2).scores(["dogs"])
    idf = math.log10(1.5)
    assert saturated.tolist() == pytest.approx([idf / 2.2, idf * 3 / 4.2, 0], rel=1e-15)


def by_the_formula(
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
    np.testing.assert_allclose(scores, by_the_formula(weighting, chunks, query, k1), rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(CORPORA, QUERIES)
def test_against_scikit_learn(chunks: list[list[str]], query: list[str]) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    vectorizer = text.TfidfVectorizer(analyzer=lambda tokens: tokens)
    expected = (vectorizer.fit_transform(chunks) @ vectorizer.transform([query]).T).toarray()[:, 0]
    scores = tfidf(chunks, "sklearn").scores(query)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-15)
