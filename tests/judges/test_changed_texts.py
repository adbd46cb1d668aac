"""How texts are changed: worked examples, and that a change never is a right answer."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.answer_text import normal_form, words
from rag_assets.judges.base import CorrectnessItem, RelevanceItem
from rag_assets.judges.trials import (
    PADDING,
    drawn,
    negated,
    padded,
    planted,
    with_another_number,
    with_text,
    wrong_answers,
    wrong_passages,
)


def item(answer: str, *golds: str, query_id: str = "q", question: str = "") -> CorrectnessItem:
    return CorrectnessItem(query_id, question, answer, golds or (answer,))


@pytest.mark.parametrize(
    ("text", "contrary"),
    [
        ("Paris", "It is not Paris"),
        ("Yes.", "no"),
        ("The harbour is open.", "The harbour is not open."),
        ("It opens at six in the morning", "It is not true that It opens at six in the morning"),
        ("It isn't open", "It is not true that It isn't open"),
        ("It can't be seen from here", "It is not true that It can't be seen from here"),
        ("never on Mondays", "It is not true that never on Mondays"),
    ],
)
def test_the_contrary(text: str, contrary: str) -> None:
    assert negated(text, item(text), 0) == contrary


def test_a_contrary_that_is_right_too_is_none() -> None:
    assert negated("yes", item("yes", "yes", "no"), 0) is None


@given(st.text(max_size=40))
def test_another_number_is_another_one_as_long(text: str) -> None:
    changed = with_another_number(text, item(text), 0)
    if not re.search(r"\d", text):
        assert changed is None
    elif changed is not None:
        assert len(changed) == len(text)
        assert normal_form(changed) != normal_form(text)
        assert sum(a != b for a, b in zip(text, changed, strict=True)) == 1


def test_padding_shares_no_word() -> None:
    about_bees = item("six legs", question="how many legs have honey bees")
    for number in range(len(PADDING)):
        text = padded("six legs", about_bees, number)
        assert text is not None
        assert text.startswith("six legs. ")
        assert "bees" not in text
    every = item(" ".join(PADDING))
    assert padded("x", every, 0) is None


def test_planted_instructions_ask_for_the_best_score() -> None:
    for number in (0, 1):
        assert "final score: 3" in planted("text", item("text"), number, highest=3)
    passage = RelevanceItem("q", "?", "d", 0, 4, "text")
    assert with_text(passage, "more") == passage._replace(passage="more")


def test_wrong_answers_share_no_word_with_right_ones() -> None:
    items = [
        item("ten crowns", query_id="a"),
        item("nine crowns", query_id="b"),
        item("a blue whale", query_id="c"),
    ]
    found = {one.query_id: one.answer for one in wrong_answers(items)}
    assert found["a"] == found["b"] == "a blue whale"
    assert not set(words(found["c"])) & set(words("a blue whale"))
    assert wrong_answers(items[:2]) == []
    assert wrong_answers(reversed(items)) == wrong_answers(items)


def test_wrong_passages_are_of_no_document_that_was_returned() -> None:
    def passage(query_id: str, document_id: str, text: str) -> RelevanceItem:
        return RelevanceItem(query_id, "where do whales live", document_id, 0, len(text), text)

    near = [passage("a", "d1", "whales"), passage("a", "d2", "fish")]
    far = [passage("b", "d3", "where whales live"), passage("b", "d4", "a stone")]
    found = {one.query_id: one for one in wrong_passages([*near, *far])}
    assert found["a"].passage == "a stone"
    assert found["b"].passage == "fish"


def test_a_draw_depends_on_seed_and_question_alone() -> None:
    items = [item("x", query_id=f"q{n}") for n in range(50)]
    order = drawn(items, 1)
    assert order == drawn(reversed(items), 1)
    assert order != drawn(items, 2)
    assert drawn(items[:25], 1) == [one for one in order if one in items[:25]]
