"""Rerankers by local models: pairs, their lengths and cache, late interaction."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.models.cache_fill import ValueCache
from rag_assets.retrieval.reranking.candidates import (
    PAIR_SCORES,
    Candidates,
    Pair,
    Scores,
    pair_keys,
)
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


PAIRS = [Pair("q", "a"), Pair("q", "b"), Pair("r", "a")]
SCORES = np.array([0.1, -1e300, 5e-324])


def test_scores_come_back_bit_by_bit(tmp_path: Path) -> None:
    ValueCache(tmp_path, PAIR_SCORES).put(pair_keys("one", PAIRS), SCORES)
    wanted = pair_keys("one", [PAIRS[2], Pair("q", "c"), *PAIRS])
    scores, is_known = ValueCache(tmp_path, PAIR_SCORES).get(wanted)
    assert scores is not None
    assert scores[[0, 2, 3, 4]].tobytes() == SCORES[[2, 0, 1, 2]].tobytes()
    assert is_known.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize(
    "other", [Pair("a", "q"), Pair("qa", ""), Pair("", "qa"), Pair("q\0a", ""), Pair("q", "a ")]
)
def test_no_two_pairs_share_a_key(other: Pair) -> None:
    assert pair_keys("one", [Pair("q", "a")]) != pair_keys("one", [other])


def test_scorers_share_a_folder_and_no_score() -> None:
    assert pair_keys("one", PAIRS) != pair_keys("other", PAIRS)


def test_a_key_is_as_it_always_was() -> None:
    """What a server was paid for is found by it."""
    (key,) = pair_keys("0" * 64, [Pair("wind", "a dog")]).to_pylist()
    assert key.hex() == "e07776e213ecba590bd1c9a1c48a53b1461d2a5d1b11a25c1317f929c2714184"


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
