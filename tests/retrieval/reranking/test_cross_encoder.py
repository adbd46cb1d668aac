from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.retrieval.reranking.candidates import Candidates, Pair
from rag_assets.retrieval.reranking.local import CrossEncoderScorer, scored_by_pairs
from rag_assets.retrieval.workspace import Usage, Workspace
from tests.retrieval.reranking.tiny_models import LONGEST, cross_encoder

QUERY = "when does the harbour close"
DOCUMENTS = ["the harbour closes at nine", "a dog needs a ticket", "nine"]
ONE = Candidates("q", QUERY, ["d0", "d1", "d2"], DOCUMENTS, np.zeros(3))


LONG = "harbour wind ticket " * 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("models") / "cross-encoder")


def test_the_score_is_the_logit_of_the_pair_by_itself(folder: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    pairs = [*(Pair(QUERY, text) for text in DOCUMENTS), Pair(QUERY, LONG), Pair(LONG, LONG[1:])]
    expected = []
    for pair in pairs:
        read = tokenizer(*pair, return_tensors="pt", truncation=True, max_length=LONGEST)
        with torch.inference_mode():
            expected.append(float(model(**read).logits[0, 0]))
    scores = CrossEncoderScorer(str(folder)).score(pairs)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(set(scores.tolist())) == len(pairs)


def test_scores_come_from_the_cache_the_second_time(folder: Path, tmp_path: Path) -> None:
    scorer = CrossEncoderScorer(str(folder))
    usages: list[Usage] = []
    workspace = Workspace(tmp_path, measure=usages.append)
    (first,) = scored_by_pairs([ONE], scorer, workspace)
    (again,) = scored_by_pairs([ONE], scorer, workspace)
    assert first.tobytes() == again.tobytes()
    assert [usage.amount for usage in usages] == [3, 0, 0, 3]


def test_what_the_files_hold_determines_the_score(folder: Path, tmp_path: Path) -> None:
    scorer = CrossEncoderScorer(str(folder))
    same = CrossEncoderScorer(str(cross_encoder(tmp_path / "same")))
    other = CrossEncoderScorer(str(cross_encoder(tmp_path / "other", seed=1)))
    assert scorer.describe() == same.describe()
    assert scorer.describe()["model_sha256"] != other.describe()["model_sha256"]
    assert scorer.describe()["max_length"] == LONGEST
    cut = CrossEncoderScorer(str(folder), max_length=16)
    assert cut.describe() != scorer.describe()
    one_by_one = CrossEncoderScorer(str(folder), batch_size=1)  # the last bits of scores differ
    assert one_by_one.describe() != scorer.describe()
    # Beyond the cut nothing is read.
    pairs = [Pair("dog", "ticket " * 20), Pair("dog", "ticket " * 40)]
    assert len(set(cut.score(pairs).tolist())) == 1


def test_a_text_of_ten_thousand_words_is_cut_and_none_is_scored(folder: Path) -> None:
    scores = CrossEncoderScorer(str(folder)).score(
        [Pair("word " * 10_000, "text " * 10_000), Pair("", "")]
    )
    assert np.isfinite(scores).all()


def test_a_length_that_the_model_cannot_read(folder: Path) -> None:
    with pytest.raises(UsageError, match=f"max_length is {LONGEST + 1}; .* has {LONGEST}"):
        CrossEncoderScorer(str(folder), max_length=LONGEST + 1).describe()


def test_a_missing_model_says_what_to_do() -> None:
    with pytest.raises(ModelUnavailable, match="give the path of a folder with") as raised:
        CrossEncoderScorer("nobody/nothing")
    assert "cross-encoder 'nobody/nothing' is not available" in str(raised.value)
    assert "\n" not in str(raised.value)
    with pytest.raises(ModelUnavailable, match="does not exist; give an existing one"):
        CrossEncoderScorer("./missing")


def test_a_model_of_three_labels_is_no_reranker(tmp_path: Path) -> None:
    scorer = CrossEncoderScorer(str(cross_encoder(tmp_path, labels=3)))
    with pytest.raises(ModelUnavailable, match="gives 3 numbers for each pair"):
        scorer.score([Pair("a", "b"), Pair("a", "c")])


def test_damaged_weights_are_one_line(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path)
    time.sleep(0.01)
    (folder / "model.safetensors").write_bytes(b"not the weights")
    with pytest.raises(ModelUnavailable, match="cannot be loaded") as raised:
        CrossEncoderScorer(str(folder)).score([Pair("a", "b")])
    assert "\n" not in str(raised.value)
