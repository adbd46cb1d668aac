"""Rerankers by local models: pairs, their lengths and cache, late interaction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.models.cache_fill import TokenVectors, Vectors, as_wanted
from rag_assets.models.model_files import SLOW_TOKENIZER_FILES
from rag_assets.retrieval.reranking import local as module
from rag_assets.retrieval.reranking.candidates import Candidates, Pair, pair_keys
from rag_assets.retrieval.reranking.diversity import MMR, mmr_order
from rag_assets.retrieval.reranking.local import (
    NOTHING,
    CrossEncoder,
    CrossEncoderScorer,
    maxsim,
    scored_by_pairs,
)
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


def test_a_sigmoid_keeps_the_order(folder: Path, tmp_path: Path) -> None:
    options = {"type": "cross_encoder", "input": "bm25", "model": str(folder)}
    plain, squashed = (
        CrossEncoder.model_validate({**options, **more}) for more in ({}, {"activation": "sigmoid"})
    )
    assert set(plain.describe()) == {"model"}  # as before there was the option
    assert squashed.describe() == {**plain.describe(), "activation": "sigmoid"}
    logits, scores = (
        each.rerank([ONE], Workspace(tmp_path)).scores[0] for each in (plain, squashed)
    )
    assert scores == pytest.approx([1 / (1 + math.exp(-logit)) for logit in logits])
    assert np.argsort(scores).tolist() == np.argsort(logits).tolist()


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
    (folder / "model.safetensors").write_bytes(b"not the weights")
    with pytest.raises(ModelUnavailable, match="cannot be loaded") as raised:
        CrossEncoderScorer(str(folder)).score([Pair("a", "b")])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "other", [Pair("a", "q"), Pair("qa", ""), Pair("", "qa"), Pair("q\0a", ""), Pair("q", "a ")]
)
def test_no_two_pairs_share_a_key(other: Pair) -> None:
    assert pair_keys("one", [Pair("q", "a")]) != pair_keys("one", [other])


def test_a_key_is_as_it_always_was() -> None:
    """What a server was paid for is found by it."""
    (key,) = pair_keys("0" * 64, [Pair("wind", "a dog")]).to_pylist()
    assert key.hex() == "e07776e213ecba590bd1c9a1c48a53b1461d2a5d1b11a25c1317f929c2714184"


WIND = "wind"
FEW, SOME, MANY, MOST = "☃" * 90, "☃" * 30 + " a", "a " * 10, "a " * 12
"""A run of snowmen is one unknown word to a model; most letters come with fewest tokens."""

TEXTS = [MANY, FEW, MOST, SOME]
LENGTHS = Candidates("q", WIND, ["d0", "d1", "d2", "d3"], TEXTS, np.zeros(4))


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
    alone = [scorer.score([Pair(WIND, text)])[0] for text in TEXTS]
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
    (scores,) = scored_by_pairs([LENGTHS], scorer, Workspace(tmp_path))
    assert batches == [{MOST, MANY}, {FEW, SOME}]
    np.testing.assert_allclose(scores, alone, atol=1e-5)


AXIS = np.array([1.0, 0.0], dtype=np.float32)
VECTORS = np.array([[0.8, 0.6], [0.8, 0.6], [0.6, -0.8], [0.0, 1.0]], dtype=np.float32)
IDS = ["a", "b", "c", "d"]


def order(lambda_: float, ids: Sequence[str] = IDS) -> list[str]:
    return [ids[position] for position in mmr_order(AXIS, VECTORS, ids, lambda_)]


def test_the_worked_example() -> None:
    # Cosines to the query: a .8, b .8, c .6, d 0. First: the best is .8 twice; b is the higher id.
    # Then .5 * cosine - .5 * likeness to b: a .5*.8 - .5*1 = -.1; d .5*0 - .5*.6 = -.3;
    # c .5*.6 - .5*(.8*.6 - .6*.8 = 0) = .3: c is next.
    # Then the nearest of b, c: a still 1 -> -.1; d max(.6, -.8) = .6 -> -.3: a, d.
    assert order(0.5) == ["b", "c", "a", "d"]


def test_lambda_one_is_the_order_by_cosine_and_zero_that_of_the_most_unlike() -> None:
    assert order(1.0) == ["b", "a", "c", "d"]
    # After b: likeness a 1, c 0, d .6: c. After c: a max(1, 0) = 1, d max(.6, -.8) = .6: d.
    assert order(0.0) == ["b", "c", "d", "a"]


@given(st.integers(0, 2**32 - 1), st.integers(0, 8), st.floats(0, 1))
def test_every_choice_is_the_best_of_those_left(seed: int, n: int, lambda_: float) -> None:
    drawn = np.random.default_rng(seed).normal(size=(n + 1, 3))
    unit: Vectors = as_wanted(drawn, str, normalise=True)
    chosen = mmr_order(unit[0], unit[1:], [str(i) for i in range(n)], lambda_).tolist()
    assert sorted(chosen) == list(range(n))
    cosines = unit.astype(np.float64) @ unit.astype(np.float64).T

    def value(item: int, before: list[int]) -> float:
        likest = max((cosines[item + 1, other + 1] for other in before), default=0.0)
        return float(lambda_ * cosines[item + 1, 0] - (1 - lambda_) * likest)

    for place, item in enumerate(chosen):
        best = max(value(other, chosen[:place]) for other in chosen[place:])
        assert math.isclose(value(item, chosen[:place]), best, abs_tol=1e-12)


def test_scores_are_one_through_the_rank(tmp_path: Path) -> None:
    texts = ["The harbour closes.", "The harbour closes.", "A dog needs a ticket.", ""]
    one = Candidates("q", "when does the harbour close", IDS, texts, np.zeros(4))
    mmr = MMR.model_validate({"type": "mmr", "input": "bm25"})
    (scores,) = mmr.scores_of([one], Workspace(tmp_path))
    assert sorted(scores.tolist(), reverse=True) == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert scores[1] == 1.0  # of two that are the same, the higher id
    assert scores[0] < 1 / 2
    (again,) = mmr.scores_of([one], Workspace(tmp_path))
    assert again.tobytes() == scores.tobytes()


def vectors(*rows: list[float]) -> TokenVectors:
    return np.array(rows, dtype=np.float16).reshape(len(rows), -1)


def test_the_mean_of_the_best_cosines() -> None:
    query = vectors([1, 0], [0, 1])
    document = vectors([0.6, 0.8], [1, 0], [-1, 0])
    # First token: max(.6, 1, -1) = 1; second: max(.8, 0, 0) = .8 (half precision: .7998).
    assert maxsim(query, document) == pytest.approx((1 + 0.8) / 2, abs=1e-3)


def test_nothing_to_compare_scores_below_every_cosine() -> None:
    some = vectors([1, 0])
    none = np.empty((0, 2), dtype=np.float16)
    assert maxsim(some, none) == maxsim(none, some) == NOTHING
    assert maxsim(some, vectors([-1, 0])) >= NOTHING
