"""Tokens, sentences and candidate spans, and the best sentence of passages."""

from __future__ import annotations

import numpy as np
import pytest

from rag_assets.answers.span_features import LONGEST, candidates_of
from rag_assets.answers.span_reader import best_sentence
from rag_assets.answers.span_tokens import (
    MOST_TOKENS,
    PassageTokens,
    inverse_frequencies,
    nearest_sentences,
    passage_tokens,
    question_words,
)


def words(text: str, tokens: PassageTokens) -> list[str]:
    return [text[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In 1,234.5 km/h, 7th.", ["In", "1,234.5", "km", "/", "h", ",", "7", "th", "."]),
        ("a_b -- don't", ["a", "_", "b", "--", "don", "'", "t"]),
        ("\u6771\u4eac 2024\u5e74", ["\u6771", "\u4eac", "2024", "\u5e74"]),
        (" \n ", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert words(text, passage_tokens(text)) == expected


def test_sentences_end_at_marks_and_lines_but_not_inside_a_number_or_before_lower_case() -> None:
    text = "At 3.5 km e.g. here. Then (so.) What?! No\nline"
    tokens = passage_tokens(text)
    sentences = [
        [word for word, one in zip(words(text, tokens), tokens.sentence, strict=True) if one == n]
        for n in range(tokens.sentence[-1] + 1)
    ]
    assert [sentence[0] for sentence in sentences] == ["At", "Then", "What", "No", "line"]


def test_the_longest_sentence_has_256_tokens() -> None:
    tokens = passage_tokens("word " * 600)
    assert np.bincount(tokens.sentence).tolist() == [256, 256, 88]


def test_kind_and_subject_of_a_question() -> None:
    many, long = question_words("How many ships?"), question_words("How long is it?")
    assert many.kind != long.kind
    assert question_words("In what year was it?").subject == question_words("What year?").subject
    assert question_words("Ships sail. Sails?").from_end.tolist() == [2, 0]  # one stem twice
    assert question_words("What is it for").subject == question_words("What is it").subject
    assert question_words("").stems.tolist() == [0], "which stands nowhere"


def test_of_a_long_passage_the_sentences_with_rare_shared_words_are_read() -> None:
    filler = [f"The ship number {n} sails in the morning and comes home again." for n in range(400)]
    filler[123] = "A walrus lives on the quay."
    text = " ".join(filler)
    tokens, question = passage_tokens(text), question_words("Where does the walrus live?")
    part = nearest_sentences(tokens, question, inverse_frequencies(map(passage_tokens, filler)))
    assert len(tokens.starts) > MOST_TOKENS >= len(part.starts) > MOST_TOKENS - 20
    assert "walrus" in words(text, part)
    assert np.all(np.diff(part.starts) > 0)
    assert sorted(set(part.sentence.tolist())) == list(range(part.sentence[-1] + 1))


def test_candidates_stay_in_a_sentence_and_are_short() -> None:
    text = "One two three. Four five six seven eight nine ten 11 12 13 14 15\nLine (two) of it"
    tokens = passage_tokens(text)
    first, last = candidates_of(tokens)
    spans = {text[tokens.starts[a] : tokens.ends[b]] for a, b in zip(first, last, strict=True)}
    assert {"One two three", "Four", "(two)", "11 12"} <= spans
    assert not {span for span in spans if "\n" in span or "three." in span or span.endswith(" of")}
    assert max(last - first) + 1 == LONGEST


def test_best_sentence_by_hand() -> None:
    passages = ["Ducks swim. The sea is cold.", "A bridge crosses the sea."]
    # N = 3; "sea" is in 2 sentences, "cold" and "crosses" in one each.
    rare, common = np.log(4 / 1.5), np.log(4 / 2.5)
    answer = best_sentence("Which cold sea?", passages)
    assert (answer.text, answer.passage, answer.start) == ("The sea is cold.", 0, 12)
    assert answer.score == pytest.approx(rare + common)
    assert best_sentence("sea", passages).passage == 0  # of equal ones, the first
    assert best_sentence("nothing of it", passages).text == "Ducks swim."
