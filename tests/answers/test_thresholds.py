from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.stage import answer_metrics
from rag_assets.answers.thresholds import Scored, best_threshold, reported, scored
from tests.answers.made_answers import answer_table, gold_table

RIGHT, ANSWERED = (1.0, 0.0), (0.0, 1.0)
"""(value as answered, value when taken back): answerable and right; unanswerable and answered."""


def value(questions: Sequence[Scored], threshold: float) -> Fraction:
    return sum(
        (
            Fraction(one.weight)
            * Fraction(
                one.refused if one.score is not None and one.score > threshold else one.answered
            )
            for one in questions
        ),
        Fraction(),
    )


@pytest.mark.parametrize("tie", [0.5, 0.0])
def test_ties_are_not_split(tie: float) -> None:
    """The official script claims 100 % for these: see the tests of its dialect."""
    questions = [Scored(tie, *RIGHT), Scored(tie, *ANSWERED), Scored(0.9, *ANSWERED)]
    row = reported(questions, best_threshold(questions))
    assert tie < row["threshold"] < 0.9
    assert row["value"] == pytest.approx(2 / 3)
    assert row["as_it_is"] == pytest.approx(1 / 3)
    assert row["n_taken_back"] == 1


def test_the_ends_and_equal_thresholds() -> None:
    """Taking back c alone, or c, b and a, gives as much."""
    assert best_threshold([Scored(0.0, *ANSWERED), Scored(0.0, *ANSWERED)]) == -math.inf
    assert best_threshold([Scored(0.0, *RIGHT), Scored(1.0, *RIGHT)]) == math.inf
    assert best_threshold([Scored(None, *ANSWERED)]) == math.inf
    assert best_threshold([]) == math.inf
    questions = [Scored(0.1, *ANSWERED), Scored(0.2, *RIGHT), Scored(0.3, *ANSWERED)]
    assert 0.2 < best_threshold(questions) < 0.3


@pytest.mark.parametrize("low", [0.1, math.nextafter(0.1, 1), 0.0, -0.1])
def test_neighbouring_floats(low: float) -> None:
    """Half of their distance is rounded down or up."""
    high = math.nextafter(low, 1)
    threshold = best_threshold([Scored(low, *RIGHT), Scored(high, *ANSWERED)])
    assert low <= threshold < high


VALUES = st.sampled_from([0.0, 0.25, 1 / 3, 0.8, 1.0])
QUESTIONS = st.lists(
    st.builds(
        Scored,
        st.none() | st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]),
        VALUES,
        st.sampled_from([0.0, 1.0]),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    max_size=8,
)


@given(QUESTIONS)
def test_no_threshold_is_better(questions: list[Scored]) -> None:
    best = best_threshold(questions)
    known = sorted({one.score for one in questions if one.score is not None})
    for other in (-math.inf, *known, *(score - 0.01 for score in known), math.inf):
        assert value(questions, best) >= value(questions, other)


def test_from_tables() -> None:
    """Right, unanswerable and answered, failed, without a gold answer."""
    answers = answer_table({"a": "x", "b": "y", "c": None, "d": "z"}, score={"a": 0.1, "b": 0.7})
    golds = gold_table({"a": ["x"], "b": [], "c": [], "d": []}, unanswerable=("b", "c"))
    metrics = answer_metrics(answers, golds, None, ["answer_em"])
    weights = {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0}
    assert scored(answers, metrics, "answer_em", weights) == [
        Scored(0.1, 1.0, 0.0, 2.0),
        Scored(0.7, 0.0, 1.0),
        Scored(None, 0.0, 0.0),
    ]
    assert scored(answers, metrics, "answer_em", {"b": 1.0}) == [Scored(0.7, 0.0, 1.0)]
