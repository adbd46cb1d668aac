from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rag_assets.reranking.candidates import Candidates, Scores
from rag_assets.retrievers.pair_scoring import scored_by_pairs
from rag_assets.retrievers.workspace import Workspace
from rag_assets.store.pair_score_cache import Pair


class Lengths:
    """Scores a pair by the length of its document."""

    def describe(self) -> Mapping[str, str]:
        return {"scorer": "lengths"}

    def score(self, pairs: Sequence[Pair]) -> Scores:
        return np.array([float(len(pair.document)) for pair in pairs])


def asked(query: str, *texts: str) -> Candidates:
    ids = [str(number) for number in range(len(texts))]
    return Candidates(query, query, ids, texts, np.zeros(len(texts)))


def test_what_is_new_and_what_was_known_is_measured(tmp_path: Path) -> None:
    measured: list[tuple[bool, int, bool]] = []

    def measure(
        what: str,
        seconds: float | None,
        amount: int,
        *,
        cached: bool,
        tokens: int | None = None,
        cost: float | None = None,
    ) -> None:
        assert what == "ask"
        measured.append((cached, amount, seconds is None))

    workspace = Workspace(tmp_path, measure=measure)
    first = [asked("dog", "ab", "abcd", "ab")]
    found = scored_by_pairs(first, Lengths(), workspace)
    assert found[0].tolist() == [2, 4, 2]
    assert measured == [(False, 2, False), (True, 0, True)], "equal texts are scored once"
    measured.clear()
    scored_by_pairs([*first, asked("cat", "ab")], Lengths(), workspace)
    assert measured == [(False, 1, False), (True, 2, True)]
