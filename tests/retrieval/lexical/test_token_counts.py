from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.retrieval.array_folder import ArrayFolder
from rag_assets.retrieval.lexical.builtin_engine import bm25_weights
from rag_assets.retrieval.lexical.token_counts import ChunkTokens

CORPORA = st.lists(st.lists(st.sampled_from("gfedcba"), max_size=9), max_size=12)


@settings(deadline=None)
@given(CORPORA)
def test_equal_to_counters(chunks: list[list[str]]) -> None:
    found = ChunkTokens.of(iter(chunks)).counts()
    assert list(found.vocabulary) == sorted({token for chunk in chunks for token in chunk})
    assert list(found.vocabulary.values()) == list(range(len(found.vocabulary)))
    assert found.lengths.tolist() == [len(chunk) for chunk in chunks]
    expected = [
        (number, chunk, Counter(chunks[chunk])[token])
        for token, number in found.vocabulary.items()
        for chunk in range(len(chunks))
        if token in chunks[chunk]
    ]
    tokens = np.repeat(np.arange(len(found.vocabulary)), found.holding)
    entries = zip(tokens.tolist(), found.chunks.tolist(), found.counts.tolist(), strict=True)
    assert list(entries) == expected
    arrays = found.indptr, found.chunks, found.counts
    assert [array.dtype.name for array in arrays] == ["int64", "int32", "uint8"]


@settings(deadline=None)
@given(CORPORA, st.lists(st.integers(0, 12), max_size=3), st.booleans())
def test_blocks_of_any_size_give_the_tokens_of_all(
    chunks: list[list[str]], cuts: list[int], stored: bool
) -> None:
    bounds, whole = [0, *sorted(min(cut, len(chunks)) for cut in cuts)], ChunkTokens.of(chunks)
    known = [whole.part(start, end) for start, end in pairwise(bounds)] if stored else []
    new = [chunks[start:end] for start, end in pairwise(bounds)] if not stored else []
    joined = ChunkTokens.joined([*known, *new, chunks[bounds[-1] :]])
    assert list(joined.texts()) == chunks
    assert joined.words == whole.words


def test_a_count_beyond_a_byte_is_kept(tmp_path: Path) -> None:
    ChunkTokens.of([["a"] * 300 + ["b"], ["a"]]).save(ArrayFolder(tmp_path))
    assert ChunkTokens.load(ArrayFolder(tmp_path)).counts().counts.tolist() == [300, 1, 1]


@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire"])
def test_weights_are_those_of_bm25s_bit_for_bit(variant: str) -> None:
    random = np.random.default_rng(5)
    chunks = [
        [f"t{number:02d}" for number in (random.pareto(1.0, size) * 3).astype(int) % 60]
        for size in random.integers(0, 40, 80)
    ]
    counts = ChunkTokens.of(chunks).counts()
    reference = bm25s.BM25(k1=0.9, b=0.4, method=variant, dtype="float64")
    numbers = [[counts.vocabulary[token] for token in chunk] for chunk in chunks]
    reference.index((numbers, counts.vocabulary), create_empty_token=False, show_progress=False)
    weights = bm25_weights(counts, 0.9, 0.4, variant, 0.5)
    assert weights.tobytes() == reference.scores["data"].tobytes()
    assert counts.chunks.tobytes() == reference.scores["indices"].tobytes()
    assert counts.indptr.tolist() == reference.scores["indptr"].tolist()


def test_weights_do_not_depend_on_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [list("aab"), list("bccc"), list("adde"), list("e"), list("ebb")]
    counts = ChunkTokens.of(chunks).counts()
    for variant in ("lucene", "bm25l", "bm25plus"):
        whole = bm25_weights(counts, 1.2, 0.75, variant, 0.5)
        with monkeypatch.context() as patch:
            patch.setattr("rag_assets.retrieval.lexical.token_counts.ENTRIES", 2)
            parts = bm25_weights(counts, 1.2, 0.75, variant, 0.5)
        assert parts.tobytes() == whole.tobytes()
