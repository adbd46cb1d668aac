from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.models.model_files import SLOW_TOKENIZER_FILES
from rag_assets.retrieval.reranking import local as module
from rag_assets.retrieval.reranking.candidates import Candidates, Pair
from rag_assets.retrieval.reranking.local import CrossEncoderScorer, scored_by_pairs
from rag_assets.retrieval.workspace import Workspace
from tests.retrieval.reranking.tiny_models import LONGEST, cross_encoder

QUERY = "wind"
FEW, SOME, MANY, MOST = "☃" * 90, "☃" * 30 + " a", "a " * 10, "a " * 12
"""A run of snowmen is one unknown word to a model; most letters come with fewest tokens."""

TEXTS = [MANY, FEW, MOST, SOME]
ONE = Candidates("q", QUERY, ["d0", "d1", "d2", "d3"], TEXTS, np.zeros(4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("models") / "cross-encoder")


def test_tokens_of_both_texts_that_are_read_or_else_letters(folder: Path, tmp_path: Path) -> None:
    pairs = [Pair("a b", "☃☃☃"), Pair("a b", "c " * 99)]

    def lengths(model: Path, batch_size: int) -> list[int]:
        scorer = CrossEncoderScorer(str(model), batch_size=batch_size)
        return [int(length) for length in scorer.lengths(pairs)]

    assert lengths(folder, 1) == [7, LONGEST]
    assert lengths(folder, 2) == [6, 201], "one batch"
    slow = cross_encoder(tmp_path / "slow")
    (slow / "tokenizer.json").unlink()
    assert any((slow / name).is_file() for name in SLOW_TOKENIZER_FILES)
    assert lengths(slow, 1) == [6, 201]


def test_pairs_of_as_many_tokens_are_one_batch(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = CrossEncoderScorer(str(folder), batch_size=2)
    alone = [scorer.score([Pair(QUERY, text)])[0] for text in TEXTS]
    batches: list[set[str]] = []
    load = module._load

    def noted(*args: Any) -> Any:
        model = load(*args)
        read = model.preprocess

        def preprocess(batch: Sequence[tuple[str, str]], **options: Any) -> Any:
            batches.append({document for _, document in batch})
            return read(batch, **options)

        monkeypatch.setattr(model, "preprocess", preprocess)
        return model

    monkeypatch.setattr(module, "_load", noted)
    (scores,) = scored_by_pairs([ONE], scorer, Workspace(tmp_path))
    assert batches == [{MOST, MANY}, {FEW, SOME}]
    np.testing.assert_allclose(scores, alone, atol=1e-5)
