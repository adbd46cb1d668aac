"""The sentence of passages that shares most with a question."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.answers.best_sentence import NO_ANSWER, best_sentence


def test_best_sentence_by_hand() -> None:
    passages = ["Ducks swim. The sea is cold.", "A bridge crosses the sea."]
    # N = 3; "sea" is in 2 sentences, "cold" and "crosses" in one each.
    rare, common = np.log(4 / 1.5), np.log(4 / 2.5)
    answer = best_sentence("Which cold sea?", passages)
    assert (answer.text, answer.passage, answer.start) == ("The sea is cold.", 0, 12)
    assert answer.score == pytest.approx(rare + common)
    assert best_sentence("sea", passages).passage == 0  # of equal ones, the first
    assert best_sentence("nothing of it", passages).text == "Ducks swim."


def test_sentences_end_at_marks_and_lines_but_not_inside_a_number_or_before_lower_case() -> None:
    text = "At 3.5 km e.g. here. Then (so.) What?! No\nline"
    sentences = ["At 3.5 km e.g. here.", "Then (so.)", "What?!", "No", "line"]
    words = ["km", "then", "what?! what", "no", "line"]
    found = [best_sentence(word, [text]).text for word in words]
    assert found == [sentences[0], sentences[1], sentences[0], sentences[3], sentences[4]]


def test_the_longest_sentence_has_256_tokens() -> None:
    passage = f"{'word ' * 300}needle {'word ' * 300}"
    answer = best_sentence("needle", [passage])
    assert len(answer.text.split()) == 256
    assert answer.start == len("word ") * 256


@pytest.mark.parametrize("passages", [[], [""], [" \n\t"], ["", " "]])
def test_nothing_to_read_is_no_answer(passages: list[str]) -> None:
    assert best_sentence("Who?", passages) == NO_ANSWER


@given(question=st.text(max_size=40), passages=st.lists(st.text(max_size=200), max_size=3))
@settings(max_examples=60, deadline=None)
def test_any_text_is_read(question: str, passages: list[str]) -> None:
    answer = best_sentence(question, passages)
    if answer != NO_ANSWER:
        assert answer.text == passages[answer.passage][answer.start : answer.end] != ""
