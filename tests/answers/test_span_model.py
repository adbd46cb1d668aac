"""A question-answering model of two planted words, and its windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.answers.best_sentence import NO_ANSWER
from rag_assets.answers.generators import ExtractiveGenerator, Question, SearchSession
from rag_assets.answers.span_model import MAX_ANSWER_TOKENS, SpanModel, _best_span
from rag_assets.errors import ModelUnavailable

WORDS = ["where", "the", "ship", "rests", "harbour", "northern", "in", "."]
NULL = 3.0
"""What no answer scores, by both logits of the first token."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT without layers: the logits of a token follow from the token alone.

    "northern" scores 4 as a first token and "harbour" as a last one, all others 0.
    """
    import torch
    from transformers import BertConfig, BertForQuestionAnswering, BertTokenizer

    folder = tmp_path_factory.mktemp("reader")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    make: Any = BertTokenizer  # it has no types
    ids = {word: number for number, word in enumerate(vocabulary)}
    make(vocab=ids, model_max_length=32).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=4,
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=32,
    )
    model = BertForQuestionAnswering(config)
    embeddings: Any = model.bert.embeddings
    embeddings.LayerNorm = torch.nn.Identity()
    with torch.no_grad():
        for part in ("word", "position", "token_type"):
            getattr(embeddings, f"{part}_embeddings").weight.zero_()
        words = embeddings.word_embeddings.weight
        words[vocabulary.index("northern"), 0] = 4.0
        words[vocabulary.index("harbour"), 1] = 4.0
        words[vocabulary.index("[CLS]"), :2] = NULL / 2
        model.qa_outputs.weight.copy_(torch.eye(4)[:2])
        model.qa_outputs.bias.zero_()
    model.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def without_normalisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A saved model has its layer norm again when it is loaded; planted numbers do without."""
    import torch

    monkeypatch.setattr(torch.nn.LayerNorm, "forward", lambda _self, values: values)


def test_the_best_span_of_all_passages(folder: Path) -> None:
    passages = ["The ship rests.", "In the northern harbour. In the harbour."]
    answer = SpanModel(str(folder)).answer("Where rests the ship?", passages)
    assert answer.span == ("northern harbour", 1, 7, 23, 8.0)
    assert answer.null_score == pytest.approx(NULL)


@pytest.mark.parametrize("words_before", [0, 20, 100, 137])
def test_a_long_passage_is_read_in_windows(folder: Path, words_before: int) -> None:
    passage = "the " * words_before + "northern harbour" + " the" * 50
    question = "where " * 200
    answer = SpanModel(str(folder)).answer(question, ["the ship", passage])
    assert (answer.span.text, answer.span.passage) == ("northern harbour", 1)
    assert answer.span.start == 4 * words_before


@pytest.mark.parametrize("passages", [[], [""], [" \n"]])
def test_nothing_to_read_is_no_answer(folder: Path, passages: list[str]) -> None:
    assert SpanModel(str(folder)).answer("Where?", passages).span == NO_ANSWER


def test_a_span_ends_after_it_starts_and_is_short() -> None:
    starts, ends = np.zeros(100, np.float32), np.zeros(100, np.float32)
    starts[[10, 60]], ends[[5, 12, 50]] = (5.0, 1.0), (5.0, 2.0, 6.0)
    offsets = [[n, n + 1] for n in range(100)]
    span = _best_span(starts, ends, np.ones(100, bool), offsets)
    assert span is not None
    assert (span.start, span.end) == (10, 13)
    naive = max(
        starts[i] + ends[j] for i in range(100) for j in range(i, min(i + MAX_ANSWER_TOKENS, 100))
    )
    assert span.score == naive == 7.0
    assert _best_span(starts, ends, np.zeros(100, bool), offsets) is None


def test_a_generator_says_the_margin_and_refuses_where_it_may(folder: Path) -> None:
    tools = SearchSession(lambda _n, _name: pytest.fail("no language model is asked"))
    questions = [
        Question("a", "Where?", ("the northern harbour",)),
        Question("b", "Where?", ("the ship",)),
    ]
    options = {"type": "extractive", "model": str(folder)}
    copied = ExtractiveGenerator.model_validate(options).answer(questions, tools).answers
    assert copied[0].text == "northern harbour"
    assert copied[1].text
    assert [one.score for one in copied] == pytest.approx([NULL - 8.0, NULL])
    refusing = ExtractiveGenerator.model_validate({**options, "refuse": True})
    answers = refusing.answer(questions, tools).answers
    assert [(one.text, one.spans) for one in answers] == [
        ("northern harbour", ((1, 4, 20),)),
        ("", ()),
    ]
    assert refusing.described() != ExtractiveGenerator.model_validate(options).described()


def test_a_folder_that_is_no_model(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="question-answering model folder"):
        SpanModel(str(tmp_path / "gone"))
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}', encoding="utf-8")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        SpanModel(str(tmp_path)).answer("Where?", ["the ship"])
