from __future__ import annotations

import hashlib

import pytest

from rag_assets.answers.answer_text import OPENINGS, VERSION, WHOLE, is_refusal


@pytest.mark.parametrize("phrase", [*WHOLE, *OPENINGS])
def test_every_phrase_refuses(phrase: str) -> None:
    assert is_refusal(phrase)
    assert is_refusal(f"  {phrase.upper()}. ")
    assert is_refusal(phrase.replace("'", "\u2019"))


@pytest.mark.parametrize("phrase", OPENINGS)
def test_a_refusal_may_go_on(phrase: str) -> None:
    assert is_refusal(f"{phrase.capitalize()} what a ticket costs.")
    assert not is_refusal(f"{phrase}, but a ticket costs 40 crowns")
    assert not is_refusal(f"They say that {phrase}")


@pytest.mark.parametrize(
    "text",
    [
        "40 crowns",
        "nonetheless",
        "none of the dogs",
        "Unknown Pleasures",
        "the contexts does not",
        "no",
        "No, it does not",
        "Noether",
    ],
)
def test_an_answer_does_not_refuse(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize("text", ["", " ", ".", '"Unanswerable"', "(none)", "No\nanswer"])
def test_forms_of_nothing(text: str) -> None:
    assert is_refusal(text)


def test_a_change_of_the_list_wants_a_new_version() -> None:
    digest = hashlib.sha256(repr((WHOLE, OPENINGS)).encode()).hexdigest()[:8]
    assert (VERSION, digest) == (1, "66cf84eb")


def test_the_lists_are_in_order_and_as_they_are_compared() -> None:
    for phrases in (WHOLE, OPENINGS):
        assert list(phrases) == sorted(set(phrases), key=lambda one: (not one.isascii(), one))
        assert [one for one in phrases if one != " ".join(one.lower().split())] == []
