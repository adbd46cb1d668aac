"""Every variant against its formula, written out over dictionaries."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import bm25s
import numpy as np
import pytest
import rank_bm25
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import StoreError, UsageError
from rag_assets.retrieval.lexical.bm25_variants import VARIANTS, resolve_delta, resolve_variant
from rag_assets.retrieval.lexical.builtin_engine import BuiltinEngine
from rag_assets.retrieval.lexical.index import LexicalIndex, WordSearcher
from rag_assets.retrieval.lexical.rank_bm25_engine import RankBm25Engine
from rag_assets.retrieval.lexical.token_counts import ChunkTokens
from tests.retrieval.lexical.index_of_texts import build_index

TOKENS = st.lists(st.sampled_from("abcdefg"), max_size=12)
QUERIES = st.lists(st.sampled_from("abcdefgxyz"), max_size=6)
CORPORA = st.lists(TOKENS, min_size=1, max_size=10).filter(any)
K1 = st.sampled_from([0.0, 0.9, 1.2, 2.0])
B = st.sampled_from([0.0, 0.4, 0.75, 1.0])
DELTA = st.sampled_from([0.25, 0.5, 1.0])
OF_BUILTIN = st.sampled_from(VARIANTS["builtin"])


def idf(variant: str, n_chunks: int, n: int) -> float:
    odds = (n_chunks - n + 0.5) / (n + 0.5)
    return {
        "lucene": math.log(1 + odds),
        "robertson": max(0.0, math.log(odds)),
        "atire": math.log(n_chunks / n),
        "bm25l": math.log((n_chunks + 1) / (n + 0.5)),
        "bm25plus": math.log((n_chunks + 1) / n),
    }[variant]


def saturation(variant: str, f: int, norm: float, k1: float, delta: float) -> float:
    c = f / norm
    return {
        "lucene": f / (f + k1 * norm),
        "robertson": f / (f + k1 * norm),
        "atire": (k1 + 1) * f / (f + k1 * norm),
        "bm25l": (k1 + 1) * (c + delta) / (k1 + c + delta),
        "bm25plus": (k1 + 1) * f / (f + k1 * norm) + delta,
    }[variant]


def by_the_formula(
    variant: str, chunks: list[list[str]], query: list[str], k1: float, b: float, delta: float
) -> list[float]:
    mean = sum(map(len, chunks)) / len(chunks)
    totals = []
    for chunk in chunks:
        norm, frequencies = 1 - b + b * len(chunk) / mean, Counter(chunk)
        totals.append(
            sum(
                idf(variant, len(chunks), sum(token in each for each in chunks))
                * saturation(variant, frequencies[token], norm, k1, delta)
                for token in query
                if frequencies[token]
            )
        )
    return totals


@settings(deadline=None)
@given(CORPORA, QUERIES, K1, B, DELTA, OF_BUILTIN)
def test_builtin_engine_against_the_formulas(
    chunks: list[list[str]], query: list[str], k1: float, b: float, delta: float, variant: str
) -> None:
    own = delta if variant in {"bm25l", "bm25plus"} else None
    scores = BuiltinEngine.build(ChunkTokens.of(chunks), k1, b, variant, own).scores(query)
    expected = by_the_formula(variant, chunks, query, k1, b, delta)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=0)


@settings(deadline=None)
@given(CORPORA, QUERIES, K1, B, DELTA)
def test_rank_bm25_engine_against_the_formulas(
    chunks: list[list[str]], query: list[str], k1: float, b: float, delta: float
) -> None:
    plus = RankBm25Engine.build(ChunkTokens.of(chunks), k1, b, "bm25plus", delta).scores(query)
    expected = by_the_formula("bm25plus", chunks, query, k1, b, delta)
    np.testing.assert_allclose(plus, expected, rtol=1e-12)


def test_the_bm25l_of_rank_bm25_is_refused_because_it_is_not_the_formula() -> None:
    chunks = [["a"], ["a", "a", "a"], ["b"], ["c"]]
    once = by_the_formula("bm25l", chunks, ["a"], 1.2, 0.75, 0.5)
    theirs = rank_bm25.BM25L(chunks, k1=1.2, b=0.75, delta=0.5).get_scores(["a"])
    np.testing.assert_allclose(theirs, np.multiply(once, [1, 3, 0, 0]), rtol=1e-12)
    with pytest.raises(UsageError, match="multiplies by the frequency of a word once more"):
        resolve_variant("rank_bm25", "bm25l")


@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire"])
def test_methods_of_bm25s_that_are_the_variant_bit_for_bit(variant: str) -> None:
    chunks = [list("aab"), list("bccc"), list("adde"), list("e"), list("ebb")]
    reference = bm25s.BM25(k1=1.2, b=0.75, method=variant, dtype="float64")
    reference.index(chunks, show_progress=False)
    engine = BuiltinEngine.build(ChunkTokens.of(chunks), 1.2, 0.75, variant)
    for query in (["a", "d"], ["b", "c", "e"]):
        np.testing.assert_array_equal(engine.scores(query), reference.get_scores(query))


@pytest.mark.parametrize("method", ["bm25l", "bm25+"])
def test_methods_of_bm25s_that_score_chunks_without_the_token(method: str) -> None:
    """The reason why its scores of these two are not taken as they are."""
    chunks = [["a"], ["b"], ["b", "c"]]
    reference = bm25s.BM25(k1=1.2, b=0.75, method=method, delta=0.5, dtype="float64")
    reference.index(chunks, show_progress=False)
    assert (reference.get_scores(["a"]) > 0).all()
    ours = BuiltinEngine.build(
        ChunkTokens.of(chunks), 1.2, 0.75, {"bm25l": "bm25l", "bm25+": "bm25plus"}[method]
    )
    assert (ours.scores(["a"]) > 0).tolist() == [True, False, False]
    assert (rank_bm25.BM25Plus(chunks).get_scores(["a"]) > 0).all()


def test_worked_example_of_delta() -> None:
    """A long chunk that holds the token gains delta * idf over one that does not."""
    chunks = [["a"] + ["x"] * 9, ["y", "z"]]
    (atire, _), (plus, absent) = (
        BuiltinEngine.build(ChunkTokens.of(chunks), 1.0, 1.0, variant).scores(["a"]).tolist()
        for variant in ("atire", "bm25plus")
    )
    # 2 chunks, mean length 6, f = 1, |d| = 10: 2 * 1 / (1 + 10 / 6) = 0.75
    assert atire == pytest.approx(0.75 * math.log(2))
    assert plus == pytest.approx(1.75 * math.log(3))
    assert absent == 0


@pytest.mark.parametrize("engine", [BuiltinEngine, RankBm25Engine])
@pytest.mark.parametrize("mmap", [True, False])
def test_saved_and_loaded_every_variant_scores_the_same(
    tmp_path: Path, engine: type[BuiltinEngine] | type[RankBm25Engine], mmap: bool
) -> None:
    chunks = [["a", "b", "b"], [], ["b", "c", "\u65e5"], ["d"]]
    for variant in VARIANTS["builtin" if engine is BuiltinEngine else "rank_bm25"]:
        (tmp_path / variant).mkdir()
        built = engine.build(ChunkTokens.of(chunks), 0.9, 0.4, variant)
        built.save(tmp_path / variant)
        loaded = engine.load(tmp_path / variant, mmap=mmap)
        assert (loaded.variant, loaded.delta) == (variant, built.delta)
        for query in (["a", "b"], ["\u65e5"], ["x"], []):
            np.testing.assert_array_equal(loaded.scores(query), built.scores(query))


@pytest.mark.parametrize("variant", VARIANTS["builtin"])
def test_bm25s_opens_the_folder_of_every_variant(tmp_path: Path, variant: str) -> None:
    built = BuiltinEngine.build(ChunkTokens.of([["a", "b"], ["b", "c"], ["c"]]), 1.2, 0.75, variant)
    built.save(tmp_path)
    opened = bm25s.BM25.load(tmp_path)
    np.testing.assert_array_equal(opened.get_scores(["c", "b"]), built.scores(["c", "b"]))


def test_an_unknown_formula_in_a_folder_is_refused(tmp_path: Path) -> None:
    BuiltinEngine.build(ChunkTokens.of([["a"]]), 1.2, 0.75).save(tmp_path)
    file = tmp_path / "params.index.json"
    file.write_text(file.read_text().replace('"method": "lucene"', '"method": "other"'))
    with pytest.raises(StoreError, match=r"params\.index\.json: no variant has method other"):
        BuiltinEngine.load(tmp_path)


HITS = {
    "lucene": ["c", "b", "a"],
    "robertson": [],  # in half of the chunks or more
    "atire": [],  # in all chunks
    "bm25l": ["c", "b", "a"],
    "bm25plus": ["c", "b", "a"],
}


@pytest.mark.parametrize(("variant", "expected"), HITS.items())
def test_a_token_of_all_chunks(tmp_path: Path, variant: str, expected: list[str]) -> None:
    assert hits(tmp_path, "builtin", variant, ["pump", "pump", "pump"], "pump") == expected


@pytest.mark.parametrize(
    ("engine", "variant"),
    [(e, variant) for e, variants in VARIANTS.items() for variant in variants],
)
def test_only_chunks_with_a_token_of_the_query_are_hits(
    tmp_path: Path, engine: str, variant: str
) -> None:
    texts = ["pump", "valve", "oil crew", "crew valve", "oil"]
    assert hits(tmp_path, engine, variant, texts, "pump oil unknown") == ["a", "e", "c"]


def hits(folder: Path, engine: str, variant: str, texts: list[str], query: str) -> list[str]:
    build_index(
        list("abcdefg"[: len(texts)]),
        texts,
        engine=engine,
        analyzer="standard",
        k1=1.2,
        b=0.75,
        folder=folder,
        variant=variant,
    )
    index = LexicalIndex.load(folder)
    (found,) = WordSearcher(index).search([query], 10)
    return [index.chunk_ids[position] for position in found.positions]


def test_defaults_and_what_is_refused() -> None:
    assert resolve_variant("builtin", None) == "lucene"
    assert resolve_variant("rank_bm25", None) == "okapi"
    assert [resolve_delta(name, None) for name in ("bm25l", "bm25plus", "atire")] == [
        0.5,
        1.0,
        None,
    ]
    with pytest.raises(UsageError, match=r"engine builtin computes lucene, .*; found 'okapi'"):
        resolve_variant("builtin", "okapi")
    with pytest.raises(UsageError, match="engine 'x'; allowed: builtin, rank_bm25"):
        resolve_variant("x", None)
    for delta in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="must be above 0"):
            resolve_delta("bm25l", delta)
