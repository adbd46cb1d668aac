"""Citations against evidence spans; every value is counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.cases import Evidence, Passage
from rag_assets.answers.metrics_stage import answer_means, answer_metrics
from tests.answers.made_answers import (
    Place,
    answer_table,
    context_table,
    gold_table,
    one_question,
)

TEXT = "x" * 10
UNITS = [(TEXT, "d", start) for start in range(0, 50, 10)]
"""Five units of ten characters, one after the other."""

SECOND: Place = ("second", "d", 10, 20)
FOURTH: Place = ("fourth", "d", 32, 36)


def cited(evidence: list[Place], **columns: Any) -> tuple[float | None, ...]:
    values = one_question("x", ["x"], evidence=evidence, context=UNITS, **columns)
    names = ("evidence_cited_precision", "evidence_cited_recall", "evidence_cited")
    return tuple(values[name] for name in names)


@pytest.mark.parametrize(
    ("evidence", "units", "precision", "recall"),
    [
        ([SECOND], [2], 1, 1),
        ([SECOND], [2, 2, 2], 1, 1),
        ([SECOND], [1], 0, 0),
        ([SECOND], [1, 2], 1 / 2, 1),
        ([SECOND, FOURTH], [4, 2], 1, 1),
        ([SECOND, FOURTH], [4], 1, 1 / 2),
        ([SECOND, FOURTH], [4, 5], 1 / 2, 1 / 2),
        ([SECOND, FOURTH], [1, 2, 3, 4, 5], 2 / 5, 1),
        ([SECOND], [], 0, 0),
        ([SECOND], [9], 0, 0),
        ([SECOND], [2, 9, 0], 1 / 3, 1),
        ([("whole", "d", None, None)], [1, 5], 1, 1),
        ([("other", "e", 0, 10)], [1], 0, 0),
        ([("either", "e", 0, 10), ("either", "d", 0, 10)], [1], 1, 1),
    ],
)
def test_units(evidence: list[Place], units: list[int], precision: float, recall: float) -> None:
    both = 2 * precision * recall / (precision + recall) if recall else 0
    assert cited(evidence, cited=units) == pytest.approx((precision, recall, both))


@pytest.mark.parametrize(
    ("span", "hit"),
    [
        ((2, 0, 10), 1),
        ((2, 3, 4), 1),  # lies inside the evidence
        ((4, 2, 6), 0),
        ((3, 0, 10), 0),
        ((2, 5, 99), 0),  # ends behind its unit
        ((2, 5, 5), 0),  # empty
        ((2, -1, 9), 0),
        ((7, 0, 1), 0),
    ],
)
def test_spans(span: tuple[int, int, int], hit: int) -> None:
    row = dict(zip(("unit", "start", "end"), span, strict=True))
    assert cited([SECOND], spans=[row]) == (hit, hit, hit)


def test_a_span_counts_where_it_stands_in_its_document() -> None:
    assert cited([FOURTH], spans=[{"unit": 4, "start": 2, "end": 6}]) == (1, 1, 1)
    assert cited([FOURTH], spans=[{"unit": 4, "start": 7, "end": 9}]) == (0, 0, 0)
    # The unit holds the evidence; what was copied from it does not.
    both = cited([FOURTH], cited=[4], spans=[{"unit": 4, "start": 7, "end": 9}])
    assert both == (0, 0, 0)


def test_what_does_not_cite_has_no_value() -> None:
    assert cited([SECOND]) == (None, None, None)
    assert cited([], cited=[2]) == (None, None, None)
    values = one_question("x", ["x"], evidence=[SECOND], cited=[2])
    assert values["evidence_cited"] is None  # no context is known


def test_where_one_answer_cites_all_are_measured() -> None:
    """Cites rightly, does not cite, refuses, failed; the last question has no evidence."""
    golds = gold_table({name: ["x"] for name in "abcde"}, {name: [SECOND] for name in "abcd"})
    answers = answer_table({"a": "x", "b": "x", "c": "", "e": "x"}, cited={"a": [2], "c": [2]})
    contexts = context_table({name: UNITS for name in "abcde"})
    table = answer_metrics(answers, golds, contexts, ["evidence_cited"])
    assert table["evidence_cited"].to_pylist() == [1, 0, 0, 0, None]


def test_citing_everything_does_not_win() -> None:
    """Against an answerer that cites one unit, the right one in two of three questions."""
    names = ["a", "b", "c"]
    golds = gold_table({name: ["x"] for name in names}, {name: [SECOND] for name in names})
    contexts = context_table({name: UNITS for name in names})
    means = []
    for units in ({name: [1, 2, 3, 4, 5] for name in names}, {"a": [2], "b": [2], "c": [1]}):
        answers = answer_table(dict.fromkeys(names, "x"), cited=units)
        columns = ["evidence_cited", "evidence_cited_recall"]
        means.append(answer_means(answer_metrics(answers, golds, contexts, columns), columns))
    everything, one = means
    assert everything["evidence_cited_recall"].mean == 1
    assert everything["evidence_cited"].mean == pytest.approx(1 / 3)
    assert one["evidence_cited"].mean == pytest.approx(2 / 3)


NUMBERS = st.lists(st.integers(0, 7), max_size=6)


@given(st.sets(st.integers(0, 4), min_size=1), NUMBERS, st.integers(0, 7))
def test_an_invented_or_repeated_citation_never_helps(
    places: set[int], units: list[int], more: int
) -> None:
    evidence: list[Place] = [(f"e{n}", "d", 10 * n, 10 * n + 10) for n in places]
    before, after = cited(evidence, cited=units), cited(evidence, cited=[*units, more])
    for old, new in zip(before, after, strict=True):
        assert old is not None
        assert new is not None
        assert 0 <= new <= 1
        if more in units:
            assert new == old
        elif more - 1 not in places:
            assert new <= old


@pytest.mark.parametrize(
    ("passage", "is_in"),
    [
        ((0, 10), True),
        ((5, 15), True),  # half of the evidence
        ((6, 16), False),
        ((9, 11), True),  # half of the passage
        ((10, 20), False),
        ((9, 12), False),
        ((3, 3), False),
    ],
)
def test_the_rule_of_judgments(passage: tuple[int, int], is_in: bool) -> None:
    assert Evidence("e", "d", 0, 10).is_in(Passage("d", *passage)) == is_in
    assert not Evidence("e", "other", 0, 10).is_in(Passage("d", *passage))
