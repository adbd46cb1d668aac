"""Large indexes are searched in other ways than small ones, and find the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rag_assets.ordering import Hits
from rag_assets.retrieval.array_folder import Entries
from rag_assets.retrieval.lexical import pruning, weighed_word, words
from rag_assets.retrieval.lexical.pruning import contenders
from rag_assets.retrieval.lexical.words import WordIndex
from tests.retrieval.lexical.index_of_texts import bm25, tfidf

N_CHUNKS = 400
ALWAYS = 1 << 40
WAYS: dict[str, dict[str, Any]] = {
    "entries": {"SMALL": 0, "LONG_SHARE": 0, "PRUNED_FROM": ALWAYS},
    "arrays": {"SMALL": 0, "LONG_SHARE": ALWAYS, "PRUNED_FROM": ALWAYS},
    "arrays of counts": {"SMALL": 0, "COUNTED_FROM": (1, 1), "PRUNED_FROM": ALWAYS},
    "counts": {"SMALL": 0, "LONG_SHARE": 0, "COUNTED_FROM": (1, 3), "PRUNED_FROM": ALWAYS},
    "few weighed together": {"SMALL": 0, "TOGETHER": 60},
    "one query after the other": {"CELLS": 0},
    "a few queries at once": {"CELLS": 3 * N_CHUNKS},
    "arrays of a few queries": {"SMALL": 0, "LONG_SHARE": ALWAYS, "CELLS": 2 * N_CHUNKS},
    "pruned": {"SMALL": 0, "PRUNED_FROM": 1},
    "pruned counts": {"SMALL": 0, "PRUNED_FROM": 1, "COUNTED_FROM": (1, 1)},
}


def drawn(seed: int) -> list[list[str]]:
    """Return chunks whose words are as frequent as in texts, and some of them equal."""
    random = np.random.default_rng(seed)
    few = [
        [f"w{number}" for number in random.zipf(1.4, size=random.integers(1, 30)) if number < 99]
        for _ in range(N_CHUNKS // 2)
    ]
    return [few[random.integers(len(few))] for _ in range(N_CHUNKS)]


def queries(seed: int) -> Iterator[list[str]]:
    random = np.random.default_rng(seed)
    for _ in range(25):
        yield [f"w{number}" for number in random.zipf(1.3, size=random.integers(1, 9))]


def index_of(kind: str, chunks: list[list[str]]) -> WordIndex:
    if kind in ("sklearn", "saturated"):
        return tfidf(chunks, kind)
    return bm25(chunks, variant=kind)


def bits(hits: Hits) -> tuple[list[int], bytes]:
    return hits.positions.tolist(), hits.scores.tobytes()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["lucene", "okapi", "bm25l", "bm25plus", "sklearn", "saturated"])
def test_the_hits_are_those_of_all_sums(
    way: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = drawn(len(kind))
    plain = index_of(kind, chunks)
    expected = {
        (number, k): bits(plain.ranked(query, k))
        for number, query in enumerate(queries(1))
        for k in (1, 5, 60, N_CHUNKS)
    }
    for name, value in WAYS[way].items():
        for module in (words, weighed_word):
            monkeypatch.setattr(module, name, value, raising=False)
    monkeypatch.setattr(pruning, "FEW", 0)
    index = index_of(kind, chunks)
    texts = [" ".join(query) for query in queries(1)]
    index.read(texts)
    found = {
        (number, k): bits(index.ranked(query, k))
        for number, query in enumerate(queries(1))
        for k in (1, 5, 60, N_CHUNKS)
    }
    assert found == expected
    for k in (1, 5, 60, N_CHUNKS):
        together = [bits(hits) for hits in index.search(texts, k)]
        assert together == [expected[number, k] for number in range(len(texts))]
    factors = {"w1": 0.5, "w7": 1.25, "w3": 0.125, "w40": 3.0}
    ours, theirs = (
        each.best([(each.word(word), factor) for word, factor in factors.items()], 5)
        for each in (index, plain)
    )
    assert bits(ours) == bits(theirs)


@dataclass(frozen=True)
class Counting:
    """A word that counts how often all of its entries are read."""

    rows: np.ndarray
    weight: float
    read: list[int]

    @property
    def holding(self) -> int:
        return len(self.rows)

    @property
    def highest(self) -> float:
        return self.weight

    def column(self) -> Entries:
        self.read.append(self.holding)
        return Entries(self.rows, np.full(self.holding, self.weight))

    def at(self, chunks: np.ndarray) -> np.ndarray:
        return np.isin(chunks, self.rows) * self.weight


def test_a_frequent_word_is_not_read_where_it_cannot_decide() -> None:
    read = list[int]()
    rare = Counting(np.arange(0, 60, 3, dtype=np.int32), 7.0, read)
    frequent = Counting(np.arange(1_000, dtype=np.int32), 0.5, read)
    found = contenders([(frequent, 2.0), (rare, 1.0)], 10_000, 10)
    assert found is not None
    assert found.tolist() == rare.rows.tolist()
    assert read == [20]


def test_where_all_words_are_frequent_all_are_added() -> None:
    read = list[int]()
    frequent = Counting(np.arange(9_000, dtype=np.int32), 0.5, read)
    assert contenders([(frequent, 1.0)], 10_000, 10) is None
    assert read == []
