"""Every variant against its formula, written out over dictionaries, and against other packages."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import get_args

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_assets.retrieval.lexical import bm25 as module
from rag_assets.retrieval.lexical.bm25 import Variant
from rag_assets.retrieval.lexical.words import WordIndex
from tests.retrieval.lexical.index_of_texts import bm25, build_index

VARIANTS = get_args(Variant)
FORMULAS = ("lucene", "robertson", "atire", "bm25l", "bm25plus")
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


def test_worked_example_of_delta() -> None:
    """A long chunk that holds the token gains delta * idf over one that does not."""
    chunks = [["a"] + ["x"] * 9, ["y", "z"]]
    (atire, _), (plus, absent) = (
        bm25(chunks, k1=1.0, b=1.0, variant=variant).scores(["a"]).tolist()
        for variant in ("atire", "bm25plus")
    )
    # 2 chunks, mean length 6, f = 1, |d| = 10: 2 * 1 / (1 + 10 / 6) = 0.75
    assert atire == pytest.approx(0.75 * math.log(2))
    assert plus == pytest.approx(1.75 * math.log(3))
    assert absent == 0


def test_a_repeated_token_counts_as_often_as_it_occurs() -> None:
    index = bm25([["a", "b"], ["b"], ["c"]])
    np.testing.assert_allclose(index.scores(["a", "b", "b"]), index.scores(["b", "a", "b"]))
    expected = index.scores(["a"]) + 2 * index.scores(["b"])
    np.testing.assert_allclose(index.scores(["a", "b", "b"]), expected, rtol=1e-15)


@pytest.mark.parametrize("variant", VARIANTS)
def test_saved_and_loaded_every_variant_scores_the_same(tmp_path: Path, variant: str) -> None:
    built = bm25([["a", "b", "b"], [], ["b", "c", "\u65e5"], ["d"]], variant=variant)
    built.save(tmp_path)
    loaded = WordIndex.load(tmp_path)
    assert (loaded.analyzer, loaded.vocabulary) == ("whitespace", built.vocabulary)
    for query in (["a", "b"], ["\u65e5"], ["x"], []):
        np.testing.assert_array_equal(loaded.scores(query), built.scores(query))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("chunks", [[], [[]], [[], [], []]])
def test_no_tokens_at_all(variant: str, chunks: list[list[str]]) -> None:
    index = bm25(chunks, variant=variant)
    assert len(index.vocabulary) == 0
    assert index.scores(["a"]).tolist() == [0.0] * len(chunks)


def test_weights_do_not_depend_on_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [list("aab"), list("bccc"), list("adde"), list("e"), list("ebb")]
    for variant in ("lucene", "bm25l", "bm25plus"):
        whole = bm25(chunks, variant=variant).data
        with monkeypatch.context() as patch:
            patch.setattr(module, "ENTRIES_AT_ONCE", 2)
            parts = bm25(chunks, variant=variant).data
        assert parts.tobytes() == whole.tobytes()


def hits(folder: Path, variant: str, texts: list[str], query: str) -> list[str]:
    ids = list("abcdefg"[: len(texts)])
    build_index(ids, texts, analyzer="standard", folder=folder, variant=variant)
    index = WordIndex.load(folder)
    (ranked,) = index.search([query], 10)
    return [index.chunk_ids[position] for position in ranked.positions]


HITS = {
    "lucene": ["c", "b", "a"],
    "robertson": [],  # in half of the chunks or more
    "atire": [],  # in all chunks
    "bm25l": ["c", "b", "a"],
    "bm25plus": ["c", "b", "a"],
    "okapi": [],  # the mean idf is negative, and so is its epsilon part
}


@pytest.mark.parametrize(("variant", "expected"), HITS.items())
def test_a_token_of_all_chunks(tmp_path: Path, variant: str, expected: list[str]) -> None:
    assert hits(tmp_path, variant, ["pump", "pump", "pump"], "pump") == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_chunks_with_a_token_of_the_query_are_hits(tmp_path: Path, variant: str) -> None:
    texts = ["pump", "valve", "oil crew", "crew valve", "oil"]
    assert hits(tmp_path, variant, texts, "pump oil unknown") == ["a", "e", "c"]
