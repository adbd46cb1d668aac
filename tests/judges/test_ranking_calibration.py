"""Metrics of retrievers by a judge's grades: by hand, and against the labels."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.evaluation.metric_names import Metric
from rag_assets.judges.calibration import (
    Sample,
    judged_rankings,
    label_grades,
    mean_row,
    verdict_grades,
)
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.sampling.judgment_log import LoggedJudgment
from rag_assets.labels.sampling.label_pool import LabelPool, label_pool
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
            *PooledUnit(query, name, 0, 10),
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
    pool = label_pool(FOUND, QUESTIONS, 3)
    people = {**JUDGE, ("q1", "x"): 3}
    tables = judged_rankings(
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
    whole = label_pool(FOUND, QUESTIONS, 3)
    pool = label_pool(FOUND, QUESTIONS[:1], 3, whole.items)
    assert pool.items == whole.items
    rows = []
    for one in (whole, pool):
        tables = judged_rankings(
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
    tables = judged_rankings(
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
        judged_rankings(
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


def test_missing_verdicts_are_counted_by_name_where_they_differ() -> None:
    rows = [{"name": name, "n_missing": n} for name, n in (("a", 2), ("B", 0))]
    assert missing_text(rows) == (
        "questions (a 2) without a verdict, which counts as nothing, not as 0"
    )
    assert missing_text(rows[1:]) is None
