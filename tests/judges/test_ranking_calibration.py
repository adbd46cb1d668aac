"""Metrics of retrievers by a judge's grades: by hand, against the labels, and by a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.evaluation.metric_names import Metric
from rag_assets.judges.calibration import Sample, mean_row
from rag_assets.judges.ranking_calibration import (
    judged_rankings,
    label_grades,
    sampled_rows,
    verdict_grades,
)
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.sampling.design import new_design
from rag_assets.labels.sampling.judgment_log import LoggedJudgment
from rag_assets.labels.sampling.label_pool import LabelPool, pool_of
from rag_assets.report.judged import missing_text
from rag_assets.schemas import RELEVANCE_VERDICTS
from rag_assets.statistics.units import Counted

NDCG, PRECISION = Metric("ndcg", 3), Metric("precision", 3)
QUESTIONS = ("q1", "q2")


def passages(rows: Mapping[str, list[str]]) -> pa.Table:
    """A table of the passages of each query, each a whole document of ten characters."""
    return pa.Table.from_pylist(
        [
            {"query_id": query, "rank": rank, "document_id": name, "start": 0, "end": 10}
            for query, names in rows.items()
            for rank, name in enumerate(names, start=1)
        ],
        schema=pa.schema(
            [
                ("query_id", pa.string()),
                ("rank", pa.int32()),
                ("document_id", pa.string()),
                ("start", pa.int64()),
                ("end", pa.int64()),
            ]
        ),
    )


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
            PooledUnit(query, name, 0, 10),
            grade,
            "judged" if grade is not None else "cannot_tell",
            0.5,
        )
        for (query, name), grade in said.items()
    ]


JUDGE = {
    ("q1", "x"): 0,
    ("q1", "y"): 2,
    ("q1", "z"): 1,
    ("q2", "x"): 0,
    ("q2", "w"): 0,
}


def test_metrics_by_grades_are_those_of_the_definition() -> None:
    pool = pool_of(FOUND, QUESTIONS, 3)
    people = {**JUDGE, ("q1", "x"): 3}
    tables = judged_rankings(
        FOUND,
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


def test_a_question_that_counts_no_more_changes_nothing_of_the_others() -> None:
    """A design goes on to hold the passages of a question that was left out."""
    whole = pool_of(FOUND, QUESTIONS, 3)
    pool = pool_of(FOUND, QUESTIONS[:1], 3, whole.items)
    assert pool.items == whole.items
    rows = []
    for one in (whole, pool):
        tables = judged_rankings(
            FOUND,
            one,
            verdict_grades(one, verdicts({**JUDGE, ("q2", "x"): 3})),
            label_grades(one, labels(JUDGE)),
            [NDCG],
        )
        rows.append({name: tables[name, NDCG].to_pylist()[0] for name in ("a", "b")})
        assert tables["a", NDCG].num_rows == len(one.question_ids)
    assert rows[0] == rows[1]


def test_a_passage_without_a_label_opens_its_question_and_without_a_verdict_empties_it() -> None:
    pool = pool_of(FOUND, QUESTIONS, 3)
    people: dict[tuple[str, str], int | None] = {
        key: grade for key, grade in JUDGE.items() if key != ("q2", "w")
    }
    people[("q1", "y")] = None
    tables = judged_rankings(
        FOUND,
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


def many(n: int) -> tuple[dict[str, pa.Table], LabelPool, dict[tuple[str, str], int]]:
    """Two retrievers over ``n`` questions, and the true grades of what they found."""
    random = np.random.default_rng(5)
    ids = [f"q{number:03d}" for number in range(n)]
    names = ["x", "y", "z", "w", "v"]
    found = {
        system: passages({one: list(random.permutation(names)[:3]) for one in ids})
        for system in "ab"
    }
    truth = {(one, name): int(random.random() < 0.4) for one in ids for name in names}
    return found, pool_of(found, ids, 3), truth


def test_whole_questions_calibrate_a_ratio() -> None:
    """A judge that says 1 of half of what is irrelevant; the label of 60 of 200 questions."""
    found, pool, truth = many(200)
    random = np.random.default_rng(6)
    said = {key: grade or int(random.random() < 0.5) for key, grade in truth.items()}
    drawn = set(random.choice(pool.question_ids, 60, replace=False))
    every, few = (
        judged_rankings(
            found,
            pool,
            verdict_grades(pool, verdicts(said)),
            label_grades(pool, labels({k: g for k, g in truth.items() if k[0] in chosen})),
            [NDCG],
        )
        for chosen in (set(pool.question_ids), drawn)
    )
    counted = Counted("all", pool.question_ids, np.ones(200), pool.question_ids)
    for name in "ab":
        whole = np.array(every[name, NDCG]["label"].to_pylist())
        row = mean_row(name, str(NDCG), few[name, NDCG], Sample.of(counted, drawn), 0.95)
        assert row["n_labels"] == 60
        assert row["low"] < whole.mean() < row["high"] < row["judge"]


def test_a_sample_of_passages_calibrates_sums() -> None:
    found, pool, truth = many(150)
    random = np.random.default_rng(7)
    said = {key: grade if random.random() < 0.9 else 1 - grade for key, grade in truth.items()}
    design = new_design(pool.items, pool.weights(Metric("dcg", 3)))
    n = len(pool.items) // 2
    order = design.order()
    chances = design.probabilities(float(design.arrivals()[order[n]]))
    log = [
        LoggedJudgment(
            pool.items[one],
            truth[pool.items[one].query_id, pool.items[one].document_id],
            probability=float(chances[one]),
        )
        for one in order[:n]
    ]
    rows = sampled_rows(
        pool, log, verdict_grades(pool, verdicts(said)), 3, 0.95, clusters=pool.question_ids
    )
    assert [(row["name"], row["metric"]) for row in rows] == [
        ("a", "precision@3"),
        ("b", "precision@3"),
        ("a", "dcg@3"),
        ("b", "dcg@3"),
    ]
    for row in rows[:2]:
        table = found[row["name"]]
        columns = (table[name].to_pylist() for name in ("query_id", "document_id"))
        full = sum(truth[key] for key in zip(*columns, strict=True)) / 450
        assert row["low"] < full < row["high"]
        assert row["high"] - row["low"] < row["human_high"] - row["human_low"]
    none = sampled_rows(
        pool, [], verdict_grades(pool, verdicts(said)), 3, 0.95, clusters=pool.question_ids
    )
    assert {(row["calibrated"], row["reason"]) for row in none} == {
        (None, "no passage of the sample has a label")
    }


def test_bounds_are_those_of_the_metric_or_missing_with_the_reason() -> None:
    """Three labels of 150 questions; then all questions in one cluster."""
    _, pool, _ = many(150)
    design = new_design(pool.items, pool.weights(Metric("dcg", 3)))
    order = design.order()[:4]
    chances = design.probabilities(float(design.arrivals()[order[3]]))
    log = [LoggedJudgment(pool.items[one], 3, probability=float(chances[one])) for one in order[:3]]
    silent = verdict_grades(pool, verdicts({}))
    for row in sampled_rows(pool, log, silent, 3, 0.95, clusters=pool.question_ids)[:2]:
        assert 0 <= row["low"] <= row["calibrated"] <= row["high"] <= 1
        assert missing_text([row]) == (
            f"{len(pool.items)} passages of the sample without a verdict, which counts as "
            "nothing, not as 0"
        )
    for row in sampled_rows(pool, log, silent, 3, 0.95, clusters=["one"] * 150):
        assert (row["low"], row["high"]) == (None, None)
        assert "one cluster of questions" in row["reason"]


def test_missing_verdicts_are_counted_by_name_where_they_differ() -> None:
    rows = [{"name": name, "method": "PPI++", "n_missing": n} for name, n in (("a", 2), ("B", 0))]
    assert missing_text(rows) == (
        "questions (a 2) without a verdict, which counts as nothing, not as 0"
    )
    assert missing_text(rows[1:]) is None
