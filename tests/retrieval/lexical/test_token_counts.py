from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.retrieval.lexical import token_counts
from rag_assets.retrieval.lexical.builtin_engine import bm25_weights
from rag_assets.retrieval.lexical.token_counts import SliceCounts, TokenCounts

CORPORA = st.lists(st.lists(st.sampled_from("gfedcba"), max_size=9), max_size=12)


@pytest.fixture(scope="module", params=[2, token_counts.SLICE])
def _slice(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_counts, "SLICE", request.param)
        yield


@pytest.mark.usefixtures("_slice")
@settings(deadline=None)
@given(CORPORA)
def test_equal_to_counters(chunks: list[list[str]]) -> None:
    found = TokenCounts.of(iter(chunks))
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
@given(CORPORA, st.lists(st.integers(0, 12), max_size=3))
def test_slices_of_any_size_give_the_counts_of_all(
    chunks: list[list[str]], cuts: list[int]
) -> None:
    bounds = [0, *sorted(cuts), len(chunks)]
    slices = [SliceCounts.of(chunks[start:end]) for start, end in pairwise(bounds) if start <= end]
    merged, whole = TokenCounts.merged(slices), TokenCounts.of(chunks)
    assert merged.vocabulary == whole.vocabulary
    for name in ("indptr", "chunks", "counts", "lengths", "seen"):
        assert getattr(merged, name).tolist() == getattr(whole, name).tolist(), name


@pytest.mark.usefixtures("_slice")
@settings(deadline=None)
@given(CORPORA)
def test_the_texts_are_there_again_but_for_the_order_within_a_chunk(
    chunks: list[list[str]],
) -> None:
    found = list(TokenCounts.of(chunks).texts())
    assert [sorted(chunk) for chunk in found] == [sorted(chunk) for chunk in chunks]
    seen = [list(dict.fromkeys(chain.from_iterable(one))) for one in (found, chunks)]
    assert seen[0] == seen[1]


def test_a_count_beyond_a_byte_is_kept(tmp_path: Path) -> None:
    counts = TokenCounts.of([["a"] * 300 + ["b"], ["a"]])
    counts.save(tmp_path)
    assert TokenCounts.load(tmp_path).counts.tolist() == [300, 1, 1]


@pytest.mark.usefixtures("_slice")
@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire"])
def test_weights_are_those_of_bm25s_bit_for_bit(variant: str) -> None:
    random = np.random.default_rng(5)
    chunks = [
        [f"t{number:02d}" for number in (random.pareto(1.0, size) * 3).astype(int) % 60]
        for size in random.integers(0, 40, 80)
    ]
    counts = TokenCounts.of(chunks)
    reference = bm25s.BM25(k1=0.9, b=0.4, method=variant, dtype="float64")
    numbers = [[counts.vocabulary[token] for token in chunk] for chunk in chunks]
    reference.index((numbers, counts.vocabulary), create_empty_token=False, show_progress=False)
    weights = bm25_weights(counts, 0.9, 0.4, variant, 0.5)
    assert weights.tobytes() == reference.scores["data"].tobytes()
    assert counts.chunks.tobytes() == reference.scores["indices"].tobytes()
    assert counts.indptr.tolist() == reference.scores["indptr"].tolist()


def test_weights_do_not_depend_on_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [list("aab"), list("bccc"), list("adde"), list("e"), list("ebb")]
    counts = TokenCounts.of(chunks)
    for variant in ("lucene", "bm25l", "bm25plus"):
        whole = bm25_weights(counts, 1.2, 0.75, variant, 0.5)
        with monkeypatch.context() as patch:
            patch.setattr("rag_assets.retrieval.lexical.token_counts.ENTRIES", 2)
            parts = bm25_weights(counts, 1.2, 0.75, variant, 0.5)
        assert parts.tobytes() == whole.tobytes()
