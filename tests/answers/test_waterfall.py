"""Faults are planted in tables, and every question is in its class.

That the tables say where an evidence was lost is held by ``tests/evaluation/test_attribution.py``.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.answers.stage import answer_metrics
from rag_assets.answers.waterfall_stage import (
    CLASSES,
    STAGES,
    UNKNOWN,
    WITH,
    WITHOUT,
    shares,
    waterfall,
)
from rag_assets.evaluation.attributions_stage import FOUND, PLACES
from rag_assets.schemas import ATTRIBUTIONS
from tests.answers.made_answers import Place, Unit, answer_table, context_table, gold_table

MOST = 3
"""Evidences of a question."""

LENGTH = 10
HELD, DROPPED = "held", "dropped_from_context"
GOLD = "forty crowns a person"
METRICS = ["answer_em", "answer_f1", "abstained"]
REFUSALS = ("", "I do not know.")
ANSWERS = {"right": (GOLD, "forty crowns"), "wrong": ("ten euros",), "refused": REFUSALS}


@dataclass(frozen=True)
class Planted:
    """One question: what becomes of each of its evidences, and of its answer."""

    query_id: str
    outcome: str
    fates: tuple[str, ...]
    answer: str | None
    golds: tuple[str, ...] = (GOLD,)
    answerable: bool = True


def plant(outcome: str, number: int, rng: random.Random) -> Planted:
    query_id = f"{outcome}#{number}"
    kind, _, where = outcome.partition("_")
    if outcome == "failed":
        return Planted(query_id, outcome, fates_of(rng.choice(STAGES), rng), None)
    if outcome == "evidence_not_labelled":
        return Planted(query_id, outcome, (), rng.choice((GOLD, "ten euros", "")))
    if outcome == "answer_not_labelled":
        return Planted(query_id, outcome, (HELD,), rng.choice((GOLD, "")), golds=())
    if kind == "unanswerable":
        answers = REFUSALS if where == "refused" else (GOLD, "ten euros")
        return Planted(query_id, outcome, (), rng.choice(answers), golds=(), answerable=False)
    stage = {WITH: HELD, WITHOUT: rng.choice(STAGES)}.get(where, where)
    fates = (HELD,) * rng.randint(1, MOST) if stage == HELD else fates_of(stage, rng)
    return Planted(query_id, outcome, fates, rng.choice(ANSWERS[kind]))


def fates_of(stage: str, rng: random.Random) -> tuple[str, ...]:
    """One evidence is lost at a stage; others are held, or lost there or later."""
    later = STAGES[STAGES.index(stage) :]
    fates = [stage, *(rng.choice((HELD, *later)) for _ in range(rng.randint(0, MOST - 1)))]
    rng.shuffle(fates)
    return tuple(fates)


def evidence(one: Planted) -> list[Place]:
    return [
        (f"e{number}", one.query_id, number * LENGTH, (number + 1) * LENGTH)
        for number in range(len(one.fates))
    ]


def context(one: Planted) -> list[Unit]:
    """What is held, in another order, without what was dropped."""
    held = [number for number, fate in enumerate(one.fates) if fate == HELD]
    units: list[Unit] = [("x" * LENGTH, one.query_id, number * LENGTH) for number in held]
    return [*reversed(units), ("filler", "filler", 0)]


def attributed(planted: Sequence[Planted]) -> pa.Table:
    """What the context holds may have been lost by the retriever."""
    rng = random.Random(3)
    lost_at = {HELD: lambda: rng.choice(PLACES), DROPPED: lambda: FOUND}
    return ATTRIBUTIONS.from_rows(
        [
            {
                "query_id": one.query_id,
                "evidence_id": f"e{number}",
                "lost_at": lost_at[fate]() if fate in lost_at else fate,
                "n_relevant_units": 1,
                "inputs": [],
                "input_ranks": [],
            }
            for one in planted
            for number, fate in enumerate(one.fates)
        ]
    )


def outcomes(
    planted: Sequence[Planted], *, known: bool = True, retrieved: bool = True
) -> dict[str, str]:
    answers = answer_table({one.query_id: one.answer for one in planted})
    golds = gold_table(
        {one.query_id: one.golds for one in planted},
        {one.query_id: evidence(one) for one in planted},
        [one.query_id for one in planted if not one.answerable],
    )
    contexts = context_table({one.query_id: context(one) for one in planted}) if known else None
    metrics = answer_metrics(answers, golds, contexts, METRICS)
    table = waterfall(metrics, golds, contexts, attributed(planted) if retrieved else None)
    assert math.isclose(math.fsum(row["share"] for row in shares(table)), 1)
    assert sum(row["n"] for row in shares(table)) == len(planted)
    return {row["query_id"]: row["outcome"] for row in table.to_pylist()}


KNOWN = [name for name in CLASSES if not name.endswith(UNKNOWN)]
EACH = 10


@cache
def planted_faults() -> tuple[Planted, ...]:
    rng = random.Random(7)
    return tuple(plant(name, number, rng) for name in KNOWN for number in range(EACH))


def test_every_planted_fault_is_in_its_class_and_there_are_all_kinds() -> None:
    """Several evidences, lost at one stage, at several stages, in part."""
    planted = planted_faults()
    assert len(planted) >= 200
    found = outcomes(planted)
    wrong = [(one, found[one.query_id]) for one in planted if found[one.query_id] != one.outcome]
    assert wrong == []
    assert Counter(found.values()) == dict.fromkeys(KNOWN, EACH)
    fates = [one.fates for one in planted]
    assert any(HELD in one and set(one) - {HELD} for one in fates)
    assert any(len(set(one) - {HELD}) > 1 for one in fates)
    assert {fate for one in fates for fate in one} == {HELD, *STAGES}


def test_without_the_context_or_a_retriever() -> None:
    """What a gold, random or empty context lacks was not retrieved."""
    found = outcomes(planted_faults(), known=False)
    for one in planted_faults():
        kind = one.outcome.partition("_")[0]
        known = kind in ("right", "wrong", "refused")
        assert found[one.query_id] == (f"{kind}_{UNKNOWN}" if known else one.outcome)
    found = outcomes(planted_faults(), retrieved=False)
    for one in planted_faults():
        kind, _, where = one.outcome.partition("_")
        lost = kind in ("wrong", "refused") and where != WITH
        assert found[one.query_id] == (f"{kind}_below_candidates" if lost else one.outcome)


def test_an_evidence_in_the_context_was_not_lost() -> None:
    """Another document of the context holds an alternative of it."""
    golds = gold_table({"q": ["x"]}, {"q": [("e", "gone", 0, 5), ("e", "d", None, None)]})
    contexts = context_table({"q": [("y", "d", 0)]})
    metrics = answer_metrics(answer_table({"q": "z"}), golds, contexts, METRICS)
    (row,) = waterfall(metrics, golds, contexts, None).to_pylist()
    assert [*row.values()] == ["q", "wrong_with_evidence", 1, 1]


@pytest.mark.parametrize(
    ("answer", "above", "outcome"),
    [
        ("forty crowns", 0.5, "right"),  # F1 is 2 * 1 * 2/3 / (1 + 2/3) = .8
        ("forty crowns", 0.79, "right"),
        ("forty crowns", 0.81, "wrong"),
        ("the forty-crowns person", 0.5, "wrong"),  # .4
        ("forty", 0.5, "wrong"),  # exactly half is not above
        (GOLD, 1.0, "right"),
    ],
)
def test_right_is_em_or_f1_above_a_threshold(answer: str, above: float, outcome: str) -> None:
    golds = gold_table({"q": [GOLD]}, {"q": [("e", "d", 0, 5)]})
    contexts = context_table({"q": [("12345", "d", 0)]})
    metrics = answer_metrics(answer_table({"q": answer}), golds, contexts, METRICS)
    table = waterfall(metrics, golds, contexts, None, right_above=above)
    assert table["outcome"].to_pylist() == [f"{outcome}_with_evidence"]


def test_shares_by_weight() -> None:
    golds = gold_table({"a": ["x"], "b": ["x"]})
    metrics = answer_metrics(answer_table({"a": "x"}), golds, None, METRICS)
    table = waterfall(metrics, golds, None, None)
    assert [tuple(row.values()) for row in shares(table, {"a": 3.0})] == [
        ("failed", 1, 0.25),
        ("evidence_not_labelled", 1, 0.75),
    ]
    assert shares(table.slice(0, 0)) == []


def test_the_stages_are_those_of_attribution() -> None:
    assert set(STAGES) - {DROPPED} == set(PLACES) - {FOUND}
    assert len(set(CLASSES)) == len(CLASSES)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, "", GOLD, "forty crowns", "ten"]),
            st.booleans(),
            st.sampled_from([(), (GOLD,)]),
            st.lists(st.sampled_from([HELD, *STAGES]), max_size=MOST),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_every_question_is_in_one_class(
    cases: list[tuple[str | None, bool, tuple[str, ...], list[str]]],
) -> None:
    planted = [
        Planted(f"q{number}", "", tuple(fates), answer, golds=golds, answerable=answerable)
        for number, (answer, answerable, golds, fates) in enumerate(cases)
    ]
    found = outcomes(planted)
    assert found.keys() == {one.query_id for one in planted}
    assert set(found.values()) <= set(CLASSES)
