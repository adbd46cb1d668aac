from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_assets.retrieval.reranking.candidates import Candidates, Pair, Scores
from rag_assets.retrieval.reranking.local import CrossEncoderScorer, scored_by_pairs
from rag_assets.retrieval.workspace import Usage, Workspace


class Lengths(CrossEncoderScorer):
    """Scores a pair by the length of its document, without a model."""

    def __init__(self) -> None:
        pass

    def describe(self) -> Mapping[str, str]:
        return {"scorer": "lengths"}

    def score(self, pairs: Sequence[Pair]) -> Scores:
        return np.array([float(len(pair.document)) for pair in pairs])

    def lengths(self, pairs: Sequence[Pair], counted: Path | None = None) -> npt.NDArray[np.int_]:
        return np.zeros(len(pairs), dtype=np.int_)


def asked(query: str, *texts: str) -> Candidates:
    ids = [str(number) for number in range(len(texts))]
    return Candidates(query, query, ids, texts, np.zeros(len(texts)))


@pytest.mark.slow
def test_what_is_new_and_what_was_known_is_measured(tmp_path: Path) -> None:
    measured: list[Usage] = []
    workspace = Workspace(tmp_path, measure=measured.append)
    first = [asked("dog", "ab", "abcd", "ab")]
    found = scored_by_pairs(first, Lengths(), workspace)
    assert found[0].tolist() == [2, 4, 2]
    new, known = measured
    assert new == Usage("ask", 2, new.seconds), "equal texts are scored once"
    assert new.seconds
    assert known == Usage("ask", 0, cached=True)
    measured.clear()
    scored_by_pairs([*first, asked("cat", "ab")], Lengths(), workspace)
    new, known = measured
    assert new == Usage("ask", 1, new.seconds)
    assert known == Usage("ask", 2, cached=True)
