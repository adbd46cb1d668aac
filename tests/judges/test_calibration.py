"""Verdicts calibrated with labels of people, of answers and of passages."""

from __future__ import annotations

import math
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from rag_assets.analysis.judged import missing_text
from rag_assets.analysis.metric_sources import drop_test
from rag_assets.errors import DataError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.judges.answer_labels import (
    AnswerLabel,
    drawn_questions,
    drawn_so_far,
    labelled_questions,
    read_answer_labels,
    read_sheet,
    sheet_rows,
    sheet_text,
)
from rag_assets.judges.base import CorrectnessItem
from rag_assets.judges.calibration import (
    JUDGED_CORRECT,
    Sample,
    context_precision,
    difference_row,
    judged_answers,
    judged_metrics,
    judged_precisions,
    label_grades,
    labels_with_verdicts,
    mean_row,
    samples,
    verdict_grades,
    without_failed,
)
from rag_assets.labels.logs import LoggedJudgment, append_lines
from rag_assets.labels.pool import LabelPool, PooledUnit, label_pool
from rag_assets.schemas import ANSWER_LABELS, ANSWER_VERDICTS, ANSWERS, RELEVANCE_VERDICTS
from rag_assets.statistics.calibration import calibrated_difference, calibrated_mean, rogan_gladen
from rag_assets.statistics.units import Counted
from tests.judges.judged_experiment import IDS, SYSTEMS, N, answers_of, fair, is_right, likes_fancy
from tests.labels.sampling import made_pool
from tests.made_tables import sheet_rows as csv_rows
from tests.made_tables import write_sheet

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
    (own,) = samples(rows, IDS, [])
    return Sample(own.counted, np.array([one in drawn for one in own.counted.query_ids]))


SAID = answers_of({"plain": 0.6, "fancy": 0.5})


def test_a_mean_is_that_of_the_estimator() -> None:
    own = SAID["plain"]
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


def test_a_difference_is_that_of_the_estimator() -> None:
    tables = [judged(SAID[name], likes_fancy) for name in SYSTEMS]
    row = difference_row(("a", "b"), JUDGED_CORRECT, (tables[0], tables[1]), sample(), 0.95)
    label, verdict = (
        np.array([float(of(SAID["fancy"][one], n)) for n, one in enumerate(IDS)])
        - np.array([float(of(SAID["plain"][one], n)) for n, one in enumerate(IDS)])
        for of in (lambda answer, _: is_right(answer), likes_fancy)
    )
    expected = calibrated_difference(label[:80], verdict[:80], verdict[80:])
    assert (row["calibrated"], row["low"], row["high"]) == expected[:3]
    # The judge sees the kinder half of fancy's wrong answers as right.
    assert row["judge"] > row["high"] > label.mean() > row["low"]


def test_clusters_are_units_and_are_labelled_as_a_whole() -> None:
    clusters = {one: f"c{number // 4}" for number, one in enumerate(IDS)}
    alone, together = (
        mean_row("x", JUDGED_CORRECT, judged(SAID["plain"]), one, 0.95)
        for one in (sample(), sample(clusters=clusters))
    )
    assert (alone["n_units"], together["n_units"]) == (80, 20)
    assert together["method"].startswith("human labels only")  # 20 units are too few for PPI++
    assert together["high"] - together["low"] > alone["high"] - alone["low"]


def test_an_answer_of_a_drawn_question_that_nobody_labelled_stops_the_estimate() -> None:
    table = judged(SAID["plain"], labelled=DRAWN - {IDS[3]})
    row = mean_row("x", JUDGED_CORRECT, table, sample(), 0.95)
    assert (row["calibrated"], row["low"], row["human"]) == (None, None, None)
    assert "1 answer to a drawn question has no label" in row["reason"]
    none = mean_row("x", JUDGED_CORRECT, table, sample(drawn=set()), 0.95)
    assert "no drawn question is labelled" in none["reason"]
    ranking = mean_row("x", "ndcg@5", table, sample(), 0.95)
    assert "`rag-assets judge sheet --passages` asks for it" in ranking["reason"]


def test_labels_of_other_answers_stand_in_and_that_is_said() -> None:
    table = judged(SAID["plain"], labelled=DRAWN - {IDS[3]})
    label, verdict = (
        np.array([float(of(SAID["fancy"][one], n)) for n, one in enumerate(IDS)])
        for of in (lambda answer, _: is_right(answer), fair)
    )
    row = mean_row("x", JUDGED_CORRECT, table, sample(), 0.95, (label, verdict))
    own = np.array([float(fair(SAID["plain"][one], n)) for n, one in enumerate(IDS)])
    expected = rogan_gladen(label, verdict, own)
    assert (row["calibrated"], row["low"], row["high"]) == expected[:3]
    assert (row["method"], row["human"], row["n_labels"]) == (expected.method, None, N)
    assert "has no label" in row["reason"]
    assert "as if the judge made equal errors on them" in row["reason"]


def test_only_answers_with_both_tell_how_a_judge_errs() -> None:
    names = ("query_id", "answer", "correct")
    people: dict[str, object] = {"a": True, "b": None, "c": False, "d": False}
    judge: dict[str, object] = {"a": 0, "b": 1, "c": None}
    labels, verdicts = (
        [dict(zip(names, ("q", *pair), strict=True)) for pair in said.items()]
        for said in (people, judge)
    )
    pairs = labels_with_verdicts(
        ANSWER_LABELS.from_rows(labels), ANSWER_VERDICTS.from_rows(verdicts)
    )
    assert [part.tolist() for part in pairs] == [[1.0], [0.0]]
    empty = labels_with_verdicts(ANSWER_LABELS.empty(), ANSWER_VERDICTS.empty())
    assert [part.tolist() for part in empty] == [[], []]


def test_what_failed_or_says_nothing_is_wrong_without_anybody_saying_so() -> None:
    own: dict[str, Any] = dict.fromkeys(IDS, "wrong") | {IDS[0]: None, IDS[1]: " \n"}
    row = mean_row("x", "m", judged(own, labelled=DRAWN - {IDS[0], IDS[1]}), sample(), 0.95)
    assert row["n_labels"] == 80
    assert row["human"] == 0.0


def test_what_cannot_be_told_is_left_out_and_counted() -> None:
    own = SAID["plain"]
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


def test_another_judge_of_equal_answers_changes_nothing_that_counts() -> None:
    own = SAID["fancy"]
    both = judged(own, likes_fancy), judged(own, fair)
    row = difference_row(("old", "new"), "m", both, sample(), 0.95)
    assert (row["calibrated"], row["low"], row["high"]) == (0, 0, 0)
    assert drop_test(row)[0] == 1.0


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


NDCG, PRECISION = Metric("ndcg", 3), Metric("precision", 3)
QUESTIONS = ("q1", "q2")


def passages(rows: dict[str, list[str]]) -> pa.Table:
    """A table of the passages of each query, each a whole document of ten characters."""
    spans = {name: (name, 0, 10) for names in rows.values() for name in names}
    return made_pool.passages({"": made_pool.run(rows)}, {"": spans})[""]


FOUND = {
    "a": passages({"q1": ["x", "y", "z"], "q2": ["x"]}),
    "b": passages({"q1": ["z", "y"], "q2": ["w", "x"]}),
}


def verdicts(said: Mapping[tuple[str, str], int | None]) -> pa.Table:
    rows: list[dict[str, object]] = [
        {"query_id": query, "document_id": name, "start": 0, "end": 10, "grade": grade}
        for (query, name), grade in said.items()
    ]
    return RELEVANCE_VERDICTS.from_rows(rows)


def labels(said: Mapping[tuple[str, str], int | None]) -> list[LoggedJudgment]:
    return [
        LoggedJudgment(
            *PooledUnit(query, name, 0, 10),
            grade,
            "judged" if grade is not None else "cannot_tell",
            0.5,
        )
        for (query, name), grade in said.items()
    ]


JUDGE = {("q1", "x"): 0, ("q1", "y"): 2, ("q1", "z"): 1, ("q2", "x"): 0, ("q2", "w"): 0}


def test_metrics_by_grades_are_those_of_the_definition() -> None:
    pool = label_pool(FOUND, QUESTIONS, 3)
    people = {**JUDGE, ("q1", "x"): 3}
    tables = judged_metrics(
        pool,
        verdict_grades(pool, verdicts(JUDGE)),
        label_grades(pool, labels(people)),
        [NDCG, PRECISION],
    )
    first, second = (tables[name, NDCG].to_pylist() for name in ("a", "b"))
    ideal = 2 + 1 / math.log2(3)
    assert first[0]["verdict"] == pytest.approx((2 / math.log2(3) + 1 / 2) / ideal)
    assert second[0]["verdict"] == pytest.approx((1 + 2 / math.log2(3)) / ideal)
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert first[0]["label"] == pytest.approx(1.0)
    assert second[0]["label"] == pytest.approx((1 + 2 / math.log2(3)) / ideal)
    # Nothing is relevant to q2: it counts 0, and is not left out.
    assert [row["label"] for row in (first[1], second[1])] == [0.0, 0.0]
    assert tables["a", PRECISION]["verdict"].to_pylist() == [pytest.approx(2 / 3), 0.0]
    assert tables["a", PRECISION]["label"].to_pylist() == [1.0, 0.0]


def ragas_precision(verdicts: list[int]) -> float:
    """As ``_calculate_average_precision`` of ragas 0.4.3 writes it, but for 1e-10."""
    denominator = sum(verdicts)
    numerator = sum((sum(verdicts[: i + 1]) / (i + 1)) * verdicts[i] for i in range(len(verdicts)))
    return numerator / denominator if denominator else 0.0


def test_context_precision_is_that_of_ragas() -> None:
    assert context_precision([1, 0, 1]) == pytest.approx((1 + 2 / 3) / 2)
    assert (context_precision([]), context_precision([1, None])) == (0, None)
    random = np.random.default_rng(8)
    for _ in range(200):
        grades = random.integers(0, 4, random.integers(1, 12)).tolist()
        expected = ragas_precision([int(grade > 0) for grade in grades])
        assert context_precision(grades) == pytest.approx(expected, abs=1e-12)


def test_context_precision_takes_verdicts_on_passages_and_labels_of_items() -> None:
    """Verdicts and labels of :data:`FOUND`: a finds x, y, z, and b finds z, y for the first one."""
    pool = label_pool(FOUND, QUESTIONS, 3)
    people: dict[tuple[str, str], int | None] = {**JUDGE, ("q1", "x"): 3, ("q2", "x"): None}
    del people["q2", "w"]
    tables = judged_precisions(pool, FOUND, verdicts(JUDGE), label_grades(pool, labels(people)))
    rows = {
        name: [(row["verdict"], row["label"], row["open"]) for row in table.to_pylist()]
        for name, table in tables.items()
    }
    assert rows == {
        "a": [(pytest.approx((1 / 2 + 2 / 3) / 2), 1.0, 0.0), (0.0, None, 0.0)],
        "b": [(1.0, 1.0, 0.0), (0.0, None, 1.0)],
    }


def test_a_question_that_counts_no_more_changes_nothing_of_the_others() -> None:
    """A design goes on to hold the passages of a question that was left out."""
    whole = label_pool(FOUND, QUESTIONS, 3)
    pool = label_pool(FOUND, QUESTIONS[:1], 3, whole.items)
    assert pool.items == whole.items
    rows = []
    for one in (whole, pool):
        tables = judged_metrics(
            one,
            verdict_grades(one, verdicts({**JUDGE, ("q2", "x"): 3})),
            label_grades(one, labels(JUDGE)),
            [NDCG],
        )
        rows.append({name: tables[name, NDCG].to_pylist()[0] for name in ("a", "b")})
        assert tables["a", NDCG].num_rows == len(one.question_ids)
    assert rows[0] == rows[1]


def test_a_passage_without_a_label_opens_its_question_and_without_a_verdict_empties_it() -> None:
    pool = label_pool(FOUND, QUESTIONS, 3)
    people: dict[tuple[str, str], int | None] = {
        key: grade for key, grade in JUDGE.items() if key != ("q2", "w")
    }
    people[("q1", "y")] = None
    tables = judged_metrics(
        pool,
        verdict_grades(pool, verdicts({**JUDGE, ("q1", "z"): None})),
        label_grades(pool, labels(people)),
        [NDCG],
    )
    table = tables["a", NDCG].to_pylist()
    assert [(row["verdict"], row["label"], row["open"]) for row in table] == [
        (None, None, 0.0),
        (0.0, None, 1.0),
    ]


def many(n: int) -> tuple[LabelPool, dict[tuple[str, str], int]]:
    """Two retrievers over ``n`` questions, and the true grades of what they found."""
    random = np.random.default_rng(5)
    ids = [f"q{number:03d}" for number in range(n)]
    names = ["x", "y", "z", "w", "v"]
    found = {
        system: passages({one: list(random.permutation(names)[:3]) for one in ids})
        for system in "ab"
    }
    truth = {(one, name): int(random.random() < 0.4) for one in ids for name in names}
    return label_pool(found, ids, 3), truth


def test_whole_questions_calibrate_a_ratio() -> None:
    """A judge that says 1 of half of what is irrelevant; the label of 60 of 200 questions."""
    pool, truth = many(200)
    random = np.random.default_rng(6)
    said = {key: grade or int(random.random() < 0.5) for key, grade in truth.items()}
    drawn = set(random.choice(pool.question_ids, 60, replace=False))
    every, few = (
        judged_metrics(
            pool,
            verdict_grades(pool, verdicts(said)),
            label_grades(pool, labels({k: g for k, g in truth.items() if k[0] in chosen})),
            [NDCG],
        )
        for chosen in (set(pool.question_ids), drawn)
    )
    counted = Counted("all", pool.question_ids, np.ones(200), pool.question_ids)
    sample = Sample(counted, np.isin(pool.question_ids, [*drawn]))
    for name in "ab":
        whole = np.array(every[name, NDCG]["label"].to_pylist())
        row = mean_row(name, str(NDCG), few[name, NDCG], sample, 0.95)
        assert row["n_labels"] == 60
        assert row["low"] < whole.mean() < row["high"] < row["judge"]


def test_a_failed_query_has_no_judged_value() -> None:
    """Of 200 questions, a retriever fails on each second one; it is always right on the others."""
    pool, truth = many(200)
    failed = set(pool.question_ids[::2])
    drawn = pool.question_ids[:80]
    counted = Counted("all", pool.question_ids, np.ones(200), pool.question_ids)
    sample = Sample(counted, np.isin(pool.question_ids, drawn))
    right = {key: 0 if key[0] in failed else 1 for key in truth}
    people = labels({key: grade for key, grade in right.items() if key[0] in drawn})
    made = judged_metrics(
        pool, verdict_grades(pool, verdicts(right)), label_grades(pool, people), [PRECISION]
    )
    table = made["a", PRECISION]
    assert mean_row("a", str(PRECISION), table, sample, 0.95)["calibrated"] == 0.5
    row = mean_row("a", str(PRECISION), without_failed(table, failed), sample, 0.95)
    assert (row["judge"], row["calibrated"], row["human"]) == (1.0, 1.0, 1.0)
    counts = ("n", "n_labels", "n_cannot_tell", "n_missing")
    assert [row[name] for name in counts] == [200, 40, 0, 100]
    # The estimate is that of a pool which never had the failed questions.
    rest = sample.only(np.array([name not in failed for name in pool.question_ids]))
    assert {**row, "n": 100, "n_missing": 0} == mean_row("a", str(PRECISION), table, rest, 0.95)
    nothing = mean_row("a", "m", without_failed(table, set(pool.question_ids)), sample, 0.95)
    assert (nothing["judge"], nothing["calibrated"], nothing["n_missing"]) == (None, None, 200)


def test_missing_verdicts_are_counted_by_name_where_they_differ() -> None:
    rows = [{"name": name, "n_missing": n} for name, n in (("a", 2), ("B", 0))]
    assert missing_text(rows) == (
        "questions (a 2) without a verdict, left out and not counted as 0"
    )
    assert missing_text(rows[1:]) is None


ALONE = {f"q{number}": f"q{number}" for number in range(400)}


def asked(query_id: str, answer: str) -> CorrectnessItem:
    return CorrectnessItem(query_id, f"what is {query_id}", answer, ("yes", "it is"))


def test_draws_nest_and_take_whole_clusters() -> None:
    fifty, hundred = drawn_questions(ALONE, 50), drawn_questions(ALONE, 100)
    assert (len(fifty), len(hundred)) == (50, 100)
    assert hundred[:50] == fifty
    more = {**ALONE, "new": "new"}
    assert [one for one in drawn_questions(more, 101) if one != "new"][:50] == fifty
    assert drawn_questions(ALONE, 1000) == drawn_questions(ALONE, 400)
    assert drawn_questions({}, 5) == []
    clusters = {f"q{number}": f"c{number // 5}" for number in range(100)}
    drawn = drawn_questions(clusters, 12)
    assert len(drawn) == 15
    assert {clusters[one] for one in drawn}.isdisjoint(
        clusters[one] for one in clusters if one not in drawn
    )
    assert drawn_so_far(clusters, [drawn[-1]]) == set(drawn)
    drawn = drawn_questions(ALONE, 30)
    assert drawn_so_far(ALONE, [drawn[0], drawn[29]]) == set(drawn)
    assert drawn_so_far(ALONE, []) == frozenset()
    assert drawn_so_far(ALONE, ["of another experiment"]) == frozenset()


def test_every_question_is_drawn_as_often() -> None:
    counts = np.zeros(40)
    for draw in range(2000):
        names = {number: f"{draw}/{number}" for number in range(40)}
        drawn = set(drawn_questions({name: name for name in names.values()}, 10))
        counts += [names[number] in drawn for number in range(40)]
    assert counts.sum() == 20_000
    # A binomial of 2,000 draws at 1/4 has a standard deviation of 19.4.
    assert abs(counts - 500).max() < 4 * 19.4


def test_a_sheet_asks_once_for_what_has_no_label_and_tells_no_system() -> None:
    given = [asked("q2", "no"), asked("q2", "maybe"), asked("q1", "=1+1"), asked("q2", "maybe")]
    labels = ANSWER_LABELS.from_rows(
        [{"query_id": "q2", "answer": "no", "correct": None, "probability": 0.5}]
    )
    rows = sheet_rows(given, labels)
    assert [(row.query_id, row.text) for row in rows] == [("q2", "maybe"), ("q1", "=1+1")]
    cells = csv_rows(sheet_text(rows))
    assert [cell["answer"] for cell in cells] == ["maybe", "'=1+1"]
    assert list(cells[0]) == ["id", "question", "right_answers", "answer", "correct"]
    assert cells[0]["right_answers"] == "yes | it is"
    assert {cell["correct"] for cell in cells} == {""}


def filled(tmp_path: Path, rows: list[CorrectnessItem], *words: str) -> Path:
    file = tmp_path / "sheet.csv"
    pairs = zip(csv_rows(sheet_text(rows)), words, strict=True)
    write_sheet(file, [{**row, "correct": word} for row, word in pairs])
    return file


def test_a_sheet_comes_back_as_labels_of_the_texts_that_were_answered(tmp_path: Path) -> None:
    rows = [asked("q1", "=1+1"), asked("q1", "two\r\nlines"), asked("q2", "x"), asked("q3", "y")]
    labels, n_open = read_sheet(filled(tmp_path, rows, "Yes", "no", "?", " "), rows)
    assert labels == [
        AnswerLabel("q1", "=1+1", True),
        AnswerLabel("q1", "two\r\nlines", False),
        AnswerLabel("q2", "x", None),
    ]
    assert n_open == 1
    file = tmp_path / "answer_labels.jsonl"
    append_lines(file, [replace(label, probability=0.25, by="anna") for label in labels])
    append_lines(file, [AnswerLabel("q2", "x", True, 0.25, None, "later")])
    table = read_answer_labels(file)
    assert [(row["answer"], row["correct"], row["by"]) for row in table.to_pylist()] == [
        ("=1+1", True, "anna"),
        ("two\r\nlines", False, "anna"),
        ("x", True, None),
    ]
    assert labelled_questions(table) == {"q1", "q2"}


@pytest.mark.parametrize(
    ("word", "written", "stored", "problem"),
    [
        ("perhaps", "a", "a", "`correct`: is 'perhaps'; must be yes, no or ?"),
        ("yes", "a", "b", "matches no answer to a drawn question; the answers have changed"),
        ("yes", "eleven", "a", "'eleven' is not the stored answer"),
    ],
)
def test_a_bad_row_names_its_line(
    tmp_path: Path, word: str, written: str, stored: str, problem: str
) -> None:
    file = filled(tmp_path, [asked("q1", "a")], word)
    file.write_text(file.read_text("utf-8").replace(",a,", f",{written},"), "utf-8")
    with pytest.raises(DataError, match=r"sheet\.csv:2") as error:
        read_sheet(file, [asked("q1", stored)])
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"query_id": "q", "answer": "a"}', "correct"),
        ('{"query_id": "q", "answer": "a", "correct": 1}', "is 1; must be true, false or null"),
        ('{"query_id": "q", "answer": 3, "correct": true}', "answer"),
        ('{"query_id": "q", "answer": "a", "correct": true, "probability": 0}', "above 0"),
        ('{"query_id": "q", "answer": "a", "correct": true, "grade": 0}', "unknown key"),
    ],
)
def test_a_bad_line_of_the_file_is_named(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "answer_labels.jsonl"
    good = '{"query_id": "q", "answer": "a", "correct": null}\n'
    file.write_text(good + line + "\n", "utf-8")
    with pytest.raises(DataError, match=r"answer_labels\.jsonl:2") as error:
        read_answer_labels(file)
    assert problem in str(error.value)
