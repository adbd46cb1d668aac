from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from rag_assets.report.history import (
    evaluation_changes,
    flat_history_rows,
    history_rows,
    history_sheet,
)
from rag_assets.report.terminal_table import sheet_view


def evaluation(number: int, retrievers: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {
        "evaluation_id": f"2026010{number}T000000000000-00{number:02x}",
        "started": datetime(2026, 1, number, tzinfo=UTC),
        "complete": True,
        "trigger": "test",
        "user": None,
        "git_commit": None,
        "corpus_digest": "a",
        "queries_digest": "a",
        "qrels_digest": "a",
        "configuration": json.dumps({"retrievers": retrievers, "top_k": [5]}),
        "code_versions": json.dumps({"metrics": "1"}),
        "packages": json.dumps({"duckdb": "2.0.0"}),
        **columns,
    }


def value(one: dict[str, Any], retriever: str, mean: float, split: str = "all") -> dict[str, Any]:
    return {
        "evaluation_id": one["evaluation_id"],
        "retriever": retriever,
        "split": split,
        "value": mean,
        "n_queries": 6,
    }


FIRST = evaluation(1, {"bm25": {"k1": 1.2}})
SECOND = evaluation(
    2,
    {"bm25": {"k1": 0.9}, "other": {"type": "tfidf", "a": 1}},
    corpus_digest="b",
    code_versions=json.dumps({"metrics": "2"}),
)
THIRD = evaluation(3, {"other": {"type": "tfidf", "a": 1}}, complete=False)


def test_changes_are_what_a_person_changed() -> None:
    assert [reason.text for reason in evaluation_changes(FIRST, SECOND)] == [
        "documents changed",
        "retriever other added",
        "bm25.k1 1.2 -> 0.9",
        "rag_assets.metrics 1 -> 2",
    ]
    assert "retriever bm25 removed" in {one.text for one in evaluation_changes(SECOND, THIRD)}
    assert evaluation_changes(FIRST, {**FIRST, "configuration": "{}"}) == []


def test_labels_that_come_or_go_are_one_reason_not_the_stages_that_follow() -> None:
    unlabelled = evaluation(
        2,
        {"bm25": {"k1": 1.2}},
        qrels_digest=None,
        code_versions=json.dumps({"metrics": "1", "overlaps": "1"}),
    )
    labelled = {**unlabelled, "qrels_digest": "a", "code_versions": json.dumps({"metrics": "2"})}
    assert [reason.text for reason in evaluation_changes(unlabelled, labelled)] == [
        "labels added",
        "rag_assets.metrics 1 -> 2",
    ]
    assert "labels removed" in {one.text for one in evaluation_changes(labelled, unlabelled)}


def test_a_change_is_to_the_evaluation_before() -> None:
    values = [
        value(FIRST, "bm25", 0.5),
        value(SECOND, "bm25", 0.75),
        value(SECOND, "other", 0.25),
    ]
    rows = history_rows([FIRST, SECOND, THIRD], values, None)
    assert [(row["retriever"], row["value"], row["change"]) for row in rows] == [
        ("bm25", 0.5, None),
        ("bm25", 0.75, 0.25),
        ("other", 0.25, None),
        (None, None, None),
    ]
    assert rows[0]["changes"] == []
    assert {"what": "bm25.k1", "old": "1.2", "new": "0.9"} in rows[1]["changes"]
    assert "bm25.k1 1.2 -> 0.9" in flat_history_rows(rows)[1]["changes"]


def test_means_by_other_labels_are_not_compared() -> None:
    other = {**SECOND, "qrels_digest": "b"}
    values = [value(FIRST, "bm25", 0.5), value(other, "bm25", 0.75), value(THIRD, "bm25", 1.0)]
    rows = history_rows([FIRST, other, {**THIRD, "qrels_digest": "b"}], values, None)
    assert [row["change"] for row in rows] == [None, None, 0.25]
    assert {"what": "labels changed", "old": None, "new": None} in rows[1]["changes"]


def test_means_that_count_other_queries_are_not_compared() -> None:
    split = [value(FIRST, "bm25", 0.5), value(SECOND, "bm25", 0.75, "test")]
    assert [row["change"] for row in history_rows([FIRST, SECOND], split, None)] == [None, None]
    judged = {**SECOND, "configuration": json.dumps({"judge": "document", "retrievers": {}})}
    values = [value(FIRST, "bm25", 0.5), value(judged, "bm25", 0.75)]
    assert [row["change"] for row in history_rows([FIRST, judged], values, None)] == [None, None]


def test_the_test_split_is_shown_where_there_is_one() -> None:
    values = [value(FIRST, "bm25", 0.5, "dev"), value(FIRST, "bm25", 0.75, "test")]
    assert [row["value"] for row in history_rows([FIRST], values, None)] == [0.75]
    assert [row["value"] for row in history_rows([FIRST], values, "dev")] == [0.5]


def test_the_table_fits_80_columns() -> None:
    name = "a-retriever-with-quite-a-long-name"
    values = [value(FIRST, name, 0.5), value(SECOND, name, 0.75)]
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    rows = history_rows([FIRST, SECOND, THIRD], values, None)
    console.print(sheet_view(history_sheet(rows, "ndcg@10")))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "+0.2500" in text
    assert "2026-01-02 00:00  0002" in text
    assert "incomplete" in text
