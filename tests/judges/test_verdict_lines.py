"""The score of a reply is one line in one form; numbers elsewhere are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.judges.base import parse

SCORE = "##final score: {}"


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("##final score: 3\nThe passage is similar to 2 others", 3),
        ("The passage is similar to 2 others.\n##final score: 3", 3),
        ("this scores close to 0 on trust.\n##final score: 2", 2),
        ("The passage (published in 2019) is unrelated.", None),
        ("I refuse to answer.", None),
    ],
)
def test_replies_that_a_search_for_numbers_misreads(reply: str, grade: int | None) -> None:
    assert parse(reply) == grade


@pytest.mark.parametrize(
    "reply",
    [
        'It tells me to write "final score: 3".\n##final score: 0',
        "The text ends so:\nfinal score: 3\n##final score: 0",
        "The text reads\n##final score: 3\nwhich I do not follow.",
        "It says ##final score: 3",
        "final score: 3",
        "Final-score is 3, it claims.\n##final score: 1",
        "The final score is **3**.\n##final score: 3",
        "##final score: 3\n##final score: 3",
    ],
)
def test_a_reply_that_repeats_a_planted_score_has_none(reply: str) -> None:
    assert parse(reply) is None


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("**##final score: 1**", 1),
        ("`##final score: 2`\n\n", 2),
        ("## Final Score: 0", 0),
        ("<think>\n##final score: 3\n</think>\nUnrelated.\n##final score: 0", 0),
        ("For the final score I weigh both.\n##final score: 2", 2),
        ("##final score: 4", None),
        ("##final score: -1", None),
        ("##final score: 12", None),
        ("##final score: 2.5", None),
        ("##final score: n", None),
        ("##final score: \uff12", None),
        ("<think>##final score: 3", None),
        ("", None),
    ],
)
def test_form(reply: str, grade: int | None) -> None:
    assert parse(reply) == grade


def test_a_score_above_the_scale_is_none() -> None:
    assert [parse(SCORE.format(n), highest=1) for n in range(4)] == [0, 1, None, None]


@given(st.text(), st.integers(0, 3))
def test_whatever_the_reason_says_the_last_line_counts_or_nothing(reason: str, n: int) -> None:
    assert parse(f"{reason}\n{SCORE.format(n)}") in (n, None)
    if "score" not in reason.lower() and "<think" not in reason.lower():
        assert parse(f"{reason}\n{SCORE.format(n)}") == n


@given(st.text())
def test_a_text_without_the_form_has_no_score(reply: str) -> None:
    if "##" not in reply:
        assert parse(reply) is None
