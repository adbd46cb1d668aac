"""A metric over evaluations, as rows and as states."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.analysis import history as history_rows_module
from rag_assets.analysis.history import (
    evaluation_changes,
    flat_history_rows,
    history,
    history_rows,
)
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.pipeline import history_files as history_module
from rag_assets.pipeline.evaluations import HISTORY_DIR
from rag_assets.pipeline.history import History
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.report.html import identity, render
from rag_assets.schemas import HISTORY
from rag_assets.store.artifacts import OBJECTS


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


def test_what_changes_and_how_labels_come_and_go() -> None:
    assert [reason.text for reason in evaluation_changes(FIRST, SECOND)] == [
        "documents changed",
        "retriever other added",
        "bm25.k1 1.2 -> 0.9",
        "rag_assets.metrics 1 -> 2",
    ]
    assert "retriever bm25 removed" in {one.text for one in evaluation_changes(SECOND, THIRD)}
    assert evaluation_changes(FIRST, {**FIRST, "configuration": "{}"}) == []
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


def test_a_block_in_the_place_of_null_is_said_by_what_it_holds() -> None:
    without, with_block = ({"bm25": {"weights": weights}} for weights in (None, {"dev": 0.5}))
    pairs = (evaluation(1, without), evaluation(2, with_block))
    texts = [reason.text for reason in evaluation_changes(*pairs)]
    assert texts == ["bm25.weights.dev absent -> 0.5"]
    texts = [reason.text for reason in evaluation_changes(*reversed(pairs))]
    assert texts == ["bm25.weights.dev 0.5 -> absent"]


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


def test_means_by_other_labels_or_queries_are_not_compared() -> None:
    other = {**SECOND, "qrels_digest": "b"}
    values = [value(FIRST, "bm25", 0.5), value(other, "bm25", 0.75), value(THIRD, "bm25", 1.0)]
    rows = history_rows([FIRST, other, {**THIRD, "qrels_digest": "b"}], values, None)
    assert [row["change"] for row in rows] == [None, None, 0.25]
    assert {"what": "labels changed", "old": None, "new": None} in rows[1]["changes"]
    split = [value(FIRST, "bm25", 0.5), value(SECOND, "bm25", 0.75, "test")]
    assert [row["change"] for row in history_rows([FIRST, SECOND], split, None)] == [None, None]
    judged = {**SECOND, "configuration": json.dumps({"judge": "document", "retrievers": {}})}
    values = [value(FIRST, "bm25", 0.5), value(judged, "bm25", 0.75)]
    assert [row["change"] for row in history_rows([FIRST, judged], values, None)] == [None, None]
    values = [value(FIRST, "bm25", 0.5, "dev"), value(FIRST, "bm25", 0.75, "test")]
    assert [row["value"] for row in history_rows([FIRST], values, None)] == [0.75]
    assert [row["value"] for row in history_rows([FIRST], values, "dev")] == [0.5]


BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LAST = "20270101T000000000000-0000"


@pytest.fixture
def row(tiny_result: EvaluationResult) -> dict[str, Any]:
    """A row of the history, as the tiny experiment wrote it."""
    found: dict[str, Any] = HistoryFiles(tiny_result.root, None).table().to_pylist()[0]
    return found


@pytest.fixture
def opened(tiny_result: EvaluationResult, tmp_path: Path) -> Callable[..., EvaluationResult]:
    """The evaluation of the tiny experiment, with a history of these rows."""

    def open_with(rows: list[dict[str, Any]]) -> EvaluationResult:
        root = tmp_path / "tiny"
        root.mkdir(exist_ok=True)
        for entry in tiny_result.root.iterdir():
            if entry.name != HISTORY_DIR and not (root / entry.name).exists():
                (root / entry.name).symlink_to(entry)
        if not (tmp_path / OBJECTS).exists():
            (tmp_path / OBJECTS).symlink_to(tiny_result.root.parent / OBJECTS)
        HistoryFiles(root, tmp_path).add(pa.Table.from_pylist(rows, schema=HISTORY.arrow()))
        evaluation = dataclasses.replace(tiny_result.evaluation, evaluation_id=LAST)
        return EvaluationResult(root, evaluation)

    return open_with


def at(row: dict[str, Any], number: int, **columns: Any) -> dict[str, Any]:
    """The row of a later evaluation, in which these columns differ."""
    started = BEGIN + timedelta(minutes=number)
    return {
        **row,
        "evaluation_id": f"{started:%Y%m%dT%H%M%S%f}-{number:04x}",
        "started": started,
        **columns,
    }


def with_value(row: dict[str, Any], value: float) -> list[dict[str, Any]]:
    return [{**one, "value": value} for one in row["metrics"]]


def built(context: Row | None) -> Row:
    assert context is not None
    return context


def whats(found: Row) -> list[str]:
    """What changed at each point of the section, the newest first."""
    return [row["what"] for row in found["sheet"].rows if row["time"]]


def test_a_point_is_an_evaluation_that_changed_something_until_that_of_the_page(
    row: dict[str, Any], opened: Callable[..., EvaluationResult]
) -> None:
    settings = json.loads(row["configuration"])
    rows = [
        at(row, n, configuration=json.dumps({**settings, "seed": seed}))
        for n, seed in enumerate("aabbba")
    ]
    result = opened(rows)
    found = built(history(result))
    assert whats(found) == ["seed b -> a", "seed a -> b", ""]
    then = dataclasses.replace(result.evaluation, evaluation_id=rows[3]["evaluation_id"])
    older = built(history(EvaluationResult(result.root, then)))
    assert whats(older) == ["seed a -> b", ""]


def test_rows_made_again_inside_a_gathered_file_are_in_order(
    row: dict[str, Any],
    opened: Callable[..., EvaluationResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history_module, "COMPACTED", 3)
    rows = [at(row, n, content_digest=str(n)) for n in range(7)]
    opened([rows[1], rows[2], rows[4]])
    result = opened([rows[3], rows[0]])
    assert len(list(result.root.glob("history/*--*.parquet"))) == 1
    for wanted in ("01234", "0123456"):
        for last in (10, 3):
            found = History(result.root, None).evaluations(last)
            assert [one["content_digest"] for one in found] == list(wanted[-last:])
        opened([rows[5], rows[6]])
    assert len(list(result.root.glob("history/*--*.parquet"))) == 2, "one lies within the other"


def test_a_line_breaks_where_means_are_of_other_questions(
    row: dict[str, Any], opened: Callable[..., EvaluationResult]
) -> None:
    split = json.dumps({**json.loads(row["configuration"]), "weight": "importance"})
    documents = at(row, 1, content_digest="1", corpus_digest="other")
    labels = at(row, 2, content_digest="2", qrels_digest="other", corpus_digest="other")
    weights = {**labels, **at(labels, 3, content_digest="3", configuration=split)}
    found = built(history(opened([at(row, 0), documents, labels, weights])))
    reasons = ["weight null -> importance", "labels changed", "documents changed", ""]
    assert whats(found) == reasons
    shapes = found["data"]()["history"][""]["layout"]["shapes"]
    assert [shape["x0"] for shape in shapes] == [2.5, 3.5]


def test_values_are_those_of_each_point(
    row: dict[str, Any], opened: Callable[..., EvaluationResult]
) -> None:
    one = at(row, 0, metrics=with_value(row, 0.25))
    kept = [cell for cell in with_value(row, 0.5) if cell["retriever"] != "bm25"]
    former = [{**cell, "retriever": "former"} for cell in kept]
    other = at(row, 1, content_digest="1", complete=False, metrics=kept + former)
    view = opened([one, other])
    found = built(history(view))
    assert [trace["name"] for trace in found["data"]()["history"][""]["data"]][-1] == "bm25"
    values = {(row["evaluation_id"], row["retriever"]): row["value"] for row in found["sheet"].rows}
    assert values == {
        (of["evaluation_id"], name): value
        for of, value in ((one, 0.25), (other, 0.5))
        for name in view.retrievers
        if (of, name) != (other, "bm25")
    }
    assert whats(found) == ["incomplete", ""]


def test_nights_that_change_nothing_push_no_point_out(
    row: dict[str, Any], opened: Callable[..., EvaluationResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_rows_module, "MAX_POINTS", 2)
    other = json.dumps({**json.loads(row["configuration"]), "seed": "b"})
    changed = at(row, 1, content_digest="1", configuration=other)
    later = [at(changed, n) for n in range(2, 7)]
    found = built(history(opened([at(row, 0), changed, *later])))
    assert len(whats(found)) == 2
    assert whats(found)[-1] == ""


def test_a_page_is_written_again_where_its_history_has_another_point(
    row: dict[str, Any], opened: Callable[..., EvaluationResult]
) -> None:
    once = identity(opened([at(row, 0)]))
    assert identity(opened([at(row, 1)])) == once, "nothing changed"
    assert identity(opened([at(row, 2, packages=json.dumps({"duckdb": "9"}))])) != once
    assert identity(opened([at(row, 3)])) != once, "as at first, after something else"


def test_what_changed_is_escaped(
    row: dict[str, Any], opened: Callable[..., EvaluationResult]
) -> None:
    attack = "</script><script>alert(1)"
    hostile = json.dumps({**json.loads(row["configuration"]), "weight": attack})
    result = opened([at(row, 0), at(row, 1, content_digest="1", configuration=hostile)])
    found = built(history(result))
    assert whats(found)[0] == f"weight null -> {attack}"
    for has_explorer, n in ((False, 1), (True, 1 + 2 * len(result.retrievers))):
        page = render(result, has_explorer=has_explorer)
        assert attack not in page
        assert page.count("alert(1)") == n, "in the table, and in the figures"
