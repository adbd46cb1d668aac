"""Calibrated rows: against the estimators, and how often the gate raises a false alarm."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.judges.calibration import (
    JUDGED_CORRECT,
    Sample,
    difference_row,
    judged_answers,
    labels_with_verdicts,
    mean_row,
    samples,
)
from rag_assets.report.judged_changes import change_of, parts_of
from rag_assets.schemas import ANSWER_LABELS, ANSWER_VERDICTS, ANSWERS
from rag_assets.statistics.calibration import calibrated_difference, calibrated_mean, rogan_gladen
from tests.judges.judged_experiment import IDS, SYSTEMS, N, answers_of, fair, is_right, likes_fancy

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "judged_gate.py"
DRAWN = set(IDS[:80])


def answer_table(own: dict[str, str | None]) -> pa.Table:
    rows: list[dict[str, object]] = [
        {"query_id": one, "answer": answer} for one, answer in own.items()
    ]
    return ANSWERS.from_rows(rows)


def judged(own: dict[str, Any], says: Any = fair, labelled: set[str] = DRAWN) -> pa.Table:
    """What a judge and people say of the answers of one system."""
    verdicts = [
        {"query_id": one, "answer": answer, "correct": int(says(answer, IDS.index(one)))}
        for one, answer in own.items()
        if answer
    ]
    labels = [
        {"query_id": one, "answer": own[one], "correct": is_right(own[one]), "probability": 0.5}
        for one in own
        if one in labelled and own[one]
    ]
    return judged_answers(
        answer_table(own), ANSWER_VERDICTS.from_rows(verdicts), ANSWER_LABELS.from_rows(labels)
    )


def sample(drawn: set[str] = DRAWN, clusters: dict[str, str] | None = None) -> Sample:
    rows = [
        {"query_id": one, "weight": 1.0, "split": "all", "cluster": (clusters or {}).get(one, one)}
        for one in IDS
    ]
    (own,) = samples(pa.Table.from_pylist(rows), IDS, ANSWER_LABELS.empty())
    return Sample(own.counted, np.array([one in drawn for one in own.counted.query_ids]))


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, str]]:
    return answers_of({"plain": 0.6, "fancy": 0.5})


def test_a_mean_is_that_of_the_estimator(answers: dict[str, dict[str, str]]) -> None:
    own = answers["plain"]
    row = mean_row("plain@-", JUDGED_CORRECT, judged(own), sample(), 0.9)
    label = np.array([float(is_right(own[one])) for one in IDS])
    verdict = np.array([float(fair(own[one], number)) for number, one in enumerate(IDS)])
    expected = calibrated_mean(label[:80], verdict[:80], verdict[80:], level=0.9)
    assert (row["calibrated"], row["low"], row["high"]) == expected[:3]
    assert (row["n"], row["n_labels"], row["judge"]) == (160, 80, verdict.mean())
    human = calibrated_mean(label[:80], verdict[:80], np.array([]), level=0.9)
    assert (row["human"], row["human_low"], row["human_high"]) == human[:3]
    assert row["human"] == label[:80].mean()
    assert row["high"] - row["low"] < row["human_high"] - row["human_low"]


def test_a_difference_is_that_of_the_estimator(answers: dict[str, dict[str, str]]) -> None:
    tables = [judged(answers[name], likes_fancy) for name in SYSTEMS]
    row = difference_row(("a", "b"), JUDGED_CORRECT, (tables[0], tables[1]), sample(), 0.95)
    label, verdict = (
        np.array([float(of(answers["fancy"][one], n)) for n, one in enumerate(IDS)])
        - np.array([float(of(answers["plain"][one], n)) for n, one in enumerate(IDS)])
        for of in (lambda answer, _: is_right(answer), likes_fancy)
    )
    expected = calibrated_difference(label[:80], verdict[:80], verdict[80:])
    assert (row["calibrated"], row["low"], row["high"]) == expected[:3]
    # The judge sees the kinder half of fancy's wrong answers as right.
    assert row["judge"] > row["high"] > label.mean() > row["low"]


def test_clusters_are_units_and_are_labelled_as_a_whole(answers: dict[str, dict[str, str]]) -> None:
    clusters = {one: f"c{number // 4}" for number, one in enumerate(IDS)}
    alone, together = (
        mean_row("x", JUDGED_CORRECT, judged(answers["plain"]), one, 0.95)
        for one in (sample(), sample(clusters=clusters))
    )
    assert (alone["n_units"], together["n_units"]) == (80, 20)
    assert together["method"].startswith("human labels only")  # 20 units are too few for PPI++
    assert together["high"] - together["low"] > alone["high"] - alone["low"]


def test_an_answer_of_a_drawn_question_that_nobody_labelled_stops_the_estimate(
    answers: dict[str, dict[str, str]],
) -> None:
    table = judged(answers["plain"], labelled=DRAWN - {IDS[3]})
    row = mean_row("x", JUDGED_CORRECT, table, sample(), 0.95)
    assert (row["calibrated"], row["low"], row["human"]) == (None, None, None)
    assert "1 answer to a drawn question has no label" in row["reason"]
    none = mean_row("x", JUDGED_CORRECT, table, sample(drawn=set()), 0.95)
    assert "no label of a drawn question" in none["reason"]
    ranking = mean_row("x", "ndcg@5", table, sample(), 0.95)
    assert "`rag-assets judge sheet --passages` asks for it" in ranking["reason"]


def test_labels_of_other_answers_stand_in_and_that_is_said(
    answers: dict[str, dict[str, str]],
) -> None:
    table = judged(answers["plain"], labelled=DRAWN - {IDS[3]})
    label, verdict = (
        np.array([float(of(answers["fancy"][one], n)) for n, one in enumerate(IDS)])
        for of in (lambda answer, _: is_right(answer), fair)
    )
    row = mean_row("x", JUDGED_CORRECT, table, sample(), 0.95, (label, verdict))
    own = np.array([float(fair(answers["plain"][one], n)) for n, one in enumerate(IDS)])
    expected = rogan_gladen(label, verdict, own)
    assert (row["calibrated"], row["low"], row["high"]) == expected[:3]
    assert (row["method"], row["human"], row["n_labels"]) == (expected.method, None, N)
    assert "has no label" in row["reason"]
    assert "as if the judge erred on these as on those" in row["reason"]


def test_only_answers_with_both_tell_how_a_judge_errs() -> None:
    said: list[dict[str, object]] = [
        {"query_id": "q", "answer": "a", "correct": True},
        {"query_id": "q", "answer": "b", "correct": None},
        {"query_id": "q", "answer": "c", "correct": False},
        {"query_id": "q", "answer": "d", "correct": False},
    ]
    judge: list[dict[str, object]] = [
        {"query_id": "q", "answer": "a", "correct": 0},
        {"query_id": "q", "answer": "b", "correct": 1},
        {"query_id": "q", "answer": "c", "correct": None},
    ]
    pairs = labels_with_verdicts(ANSWER_LABELS.from_rows(said), ANSWER_VERDICTS.from_rows(judge))
    assert [part.tolist() for part in pairs] == [[1.0], [0.0]]
    empty = labels_with_verdicts(ANSWER_LABELS.empty(), ANSWER_VERDICTS.empty())
    assert [part.tolist() for part in empty] == [[], []]


def test_what_failed_or_says_nothing_is_wrong_without_anybody_saying_so() -> None:
    own: dict[str, Any] = dict.fromkeys(IDS, "wrong") | {IDS[0]: None, IDS[1]: " \n"}
    table = judged(own, labelled=DRAWN - {IDS[0], IDS[1]})
    row = mean_row("x", "m", table, sample(), 0.95)
    assert row["n_labels"] == 80
    assert row["human"] == 0.0


def test_what_cannot_be_told_is_left_out_and_counted(answers: dict[str, dict[str, str]]) -> None:
    own = answers["plain"]
    labels: list[dict[str, object]] = [
        {"query_id": one, "answer": own[one], "correct": None if one == IDS[5] else True}
        for one in DRAWN
    ]
    verdicts: list[dict[str, object]] = [
        {"query_id": one, "answer": own[one], "correct": None} for one in IDS
    ]
    table = judged_answers(
        answer_table(dict(own)),
        ANSWER_VERDICTS.from_rows(verdicts),
        ANSWER_LABELS.from_rows(labels),
    )
    row = mean_row("x", "m", table, sample(), 0.95)
    assert (row["n_labels"], row["n_cannot_tell"], row["n_missing"]) == (79, 1, 160)
    assert (row["calibrated"], row["judge"], row["weight"]) == (1.0, None, 0.0)


def test_another_judge_of_equal_answers_changes_nothing_that_counts(
    answers: dict[str, dict[str, str]],
) -> None:
    own = answers["fancy"]
    before, after = judged(own, likes_fancy), judged(own, fair)
    change = change_of(before, after, sample(), 0.95)
    assert (change.row["calibrated"], change.row["low"], change.row["high"]) == (0, 0, 0)
    assert change.p == 1.0
    parts = parts_of(before, after, before, sample(), same_judge=False)
    assert parts["n_answers_changed"] == 0
    assert parts["by_judge"] == parts["change"] < -0.1
    assert (parts["by_answers"], parts["by_both"]) == (0.0, 0.0)


def test_a_change_is_split_into_answers_judge_and_both(answers: dict[str, dict[str, str]]) -> None:
    old = dict.fromkeys(IDS, "wrong")
    new = {**old, **{one: f"right {one}" for one in IDS[:40]}}
    never, always = (lambda _answer, _n: False), (lambda _answer, _n: True)
    same = parts_of(judged(old), judged(new), judged(old), sample(), same_judge=True)
    assert same["change"] == same["by_answers"]
    assert (same["by_judge"], same["by_both"], same["n_answers_changed"]) == (0, 0, 40)
    # The new judge says yes to all. Nothing tells what it would say of the 40 answers before.
    unknown = judged_answers(
        answer_table(dict(old)), ANSWER_VERDICTS.empty(), ANSWER_LABELS.empty()
    )
    both = parts_of(judged(old, never), judged(new, always), unknown, sample(), same_judge=False)
    assert (both["change"], both["by_judge"], both["by_both"]) == (1.0, 0.75, 0.25)
    # It says what it would: then nothing is left to the answers.
    crossed = parts_of(
        judged(old, never), judged(new, always), judged(old, always), sample(), same_judge=False
    )
    assert (crossed["by_judge"], crossed["by_answers"], crossed["by_both"]) == (1.0, 0.0, 0.0)


def test_two_equal_systems_and_a_judge_that_likes_one() -> None:
    """The benchmark prints it for 2,000 repetitions: .051 and .063, of the verdicts .914 and 1."""
    script = runpy.run_path(str(BENCHMARK))
    world = script["WORLDS"]["equal, judge likes the old more"]
    alarms = script["alarms"](world, 1000, 11)
    assert alarms["gate"] <= alarms["one test"] <= 0.06
    assert alarms["verdicts alone"] >= 0.99
    drop = script["alarms"](script["WORLDS"]["drop of .10, judge likes the new"], 300, 12)
    assert drop["one test"] > drop["labels alone"] > drop["verdicts alone"]
    assert drop["gate"] > drop["verdicts alone"]
