"""A metric over evaluations, as rows and as states."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.analysis import history as history_rows_module
from rag_assets.analysis.history import evaluation_changes, flat_history_rows, history, history_rows
from rag_assets.analysis.metric_sources import named_source
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.pipeline.evaluations import HISTORY_DIR
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.report.html import identity, render
from rag_assets.schemas import HISTORY
from rag_assets.store.artifacts import OBJECTS


def evaluation(number: int, retrievers: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {
        "evaluation_id": f"2026010{number}T000000000000-00{number:02x}",
        "started": datetime(2026, 1, number, tzinfo=UTC),
        **{"complete": True, "trigger": "test", "user": None, "git_commit": None},
        **dict.fromkeys(("corpus_digest", "queries_digest", "qrels_digest"), "a"),
        "configuration": json.dumps({"retrievers": retrievers, "top_k": [5]}),
        "code_versions": json.dumps({"metrics": "1"}),
        "packages": json.dumps({"duckdb": "2.0.0"}),
        **columns,
    }


def value(one: dict[str, Any], retriever: str, mean: float, split: str = "all") -> dict[str, Any]:
    place = {"evaluation_id": one["evaluation_id"], "retriever": retriever, "split": split}
    return {**place, "value": mean, "n_queries": 6}


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
    values = [value(FIRST, "bm25", 0.5), value(SECOND, "bm25", 0.75), value(SECOND, "other", 0.25)]
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
    values = [value(FIRST, "bm25", 0.5), {**value(SECOND, "bm25", 0.75), "n_queries": 5}]
    values += [value(FIRST, "other", 0.5), value(SECOND, "other", 0.75)]
    rows = history_rows([FIRST, SECOND], values, None)
    assert [(row["change"], row["comparable"]) for row in rows[2:]] == [(None, False), (0.25, True)]
    source = named_source(None, parse_metric("hit_rate@1"))
    lines = history_rows_module.MetricHistory("tiny", source, rows).plot().data
    assert [list(line.y) for line in lines] == [[0.5, None, 0.75], [0.5, 0.75]]
    values = [value(FIRST, "bm25", 0.5, "dev"), value(FIRST, "bm25", 0.75, "test")]
    assert [row["value"] for row in history_rows([FIRST], values, None)] == [0.75]
    assert [row["value"] for row in history_rows([FIRST], values, "dev")] == [0.5]


BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LAST = "20270101T000000000000-0000"


class Later:
    """The evaluation of the tiny experiment, with rows of a history that differ from its own."""

    def __init__(self, result: EvaluationResult, folder: Path) -> None:
        self.row: dict[str, Any] = HistoryFiles(result.root, None).table().to_pylist()[0]
        self.root = folder / "tiny"
        self.files = HistoryFiles(self.root, folder)
        self.root.mkdir()
        for entry in result.root.iterdir():
            if entry.name != HISTORY_DIR:
                (self.root / entry.name).symlink_to(entry)
        (folder / OBJECTS).symlink_to(result.root.parent / OBJECTS)
        self.evaluation = dataclasses.replace(result.evaluation, evaluation_id=LAST)

    def add(self, number: int, settings: Mapping[str, Any] = {}, **columns: Any) -> dict[str, Any]:
        """Add the row of an evaluation some minutes later, in which these are other ones."""
        started = BEGIN + timedelta(minutes=number)
        lead = {"evaluation_id": f"{started:%Y%m%dT%H%M%S%f}-{number:04x}", "started": started}
        configuration = {**json.loads(self.row["configuration"]), **settings}
        row = {**self.row, **lead, "configuration": json.dumps(configuration), **columns}
        self.files.add(pa.Table.from_pylist([row], schema=HISTORY.arrow()))
        return row

    def result(self, evaluation_id: str = LAST) -> EvaluationResult:
        shown = dataclasses.replace(self.evaluation, evaluation_id=evaluation_id)
        return EvaluationResult(self.root, shown)

    def section(self, evaluation_id: str = LAST) -> Row:
        found = history(self.result(evaluation_id))
        assert found is not None
        return found


@pytest.fixture
def later(tiny_result: EvaluationResult, tmp_path: Path) -> Later:
    return Later(tiny_result, tmp_path)


def whats(found: Row) -> list[str]:
    """What changed at each point of the section, the newest first."""
    return [row["what"] for row in found["sheet"].rows if row["time"]]


def test_a_point_is_an_evaluation_that_changed_something_until_that_of_the_page(
    later: Later,
) -> None:
    rows = [later.add(number, {"seed": seed}) for number, seed in enumerate("aabbba")]
    assert whats(later.section()) == ["seed b -> a", "seed a -> b", ""]
    assert whats(later.section(rows[3]["evaluation_id"])) == ["seed a -> b", ""]


def test_a_line_breaks_where_means_are_of_other_questions(later: Later) -> None:
    documents: dict[str, Any] = {"corpus_digest": "other"}
    labels = {**documents, "qrels_digest": "other"}
    later.add(0)
    later.add(1, content_digest="1", **documents)
    later.add(2, content_digest="2", **labels)
    later.add(3, {"weight": "importance"}, content_digest="3", **labels)
    found = later.section()
    assert whats(found) == ["weight null -> importance", "labels changed", "documents changed", ""]
    shapes = found["data"]()["history"][""]["layout"]["shapes"]
    assert [shape["x0"] for shape in shapes] == [2.5, 3.5]


def test_values_are_those_of_each_point(later: Later) -> None:
    metrics = later.row["metrics"]
    one = later.add(0, metrics=[{**cell, "value": 0.25} for cell in metrics])
    kept = [{**cell, "value": 0.5} for cell in metrics if cell["retriever"] != "bm25"]
    former = [{**cell, "retriever": "former"} for cell in kept]
    other = later.add(1, content_digest="1", complete=False, metrics=kept + former)
    found = later.section()
    assert [trace["name"] for trace in found["data"]()["history"][""]["data"]][-1] == "bm25"
    values = {(row["evaluation_id"], row["retriever"]): row["value"] for row in found["sheet"].rows}
    assert values == {
        (of["evaluation_id"], name): value
        for of, value in ((one, 0.25), (other, 0.5))
        for name in later.result().retrievers
        if (of, name) != (other, "bm25")
    }
    assert whats(found) == ["incomplete", ""]


def test_nights_that_change_nothing_push_no_point_out(
    later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_rows_module, "MAX_POINTS", 2)
    later.add(0)
    for number in range(1, 7):
        later.add(number, {"seed": "b"}, content_digest="1")
    assert whats(later.section())[1:] == [""]


def test_a_page_is_written_again_where_its_history_has_another_point(later: Later) -> None:
    later.add(0)
    once = identity(later.result())
    later.add(1)
    assert identity(later.result()) == once, "nothing changed"
    later.add(2, packages=json.dumps({"duckdb": "9"}))
    assert identity(later.result()) != once
    later.add(3)
    assert identity(later.result()) != once, "as at first, after something else"


def test_what_changed_is_escaped(later: Later) -> None:
    attack = "</script><script>alert(1)"
    later.add(0)
    later.add(1, {"weight": attack}, content_digest="1")
    assert whats(later.section())[0] == f"weight null -> {attack}"
    result = later.result()
    for has_explorer, n in ((False, 1), (True, 1 + 2 * len(result.retrievers))):
        page = render(result, has_explorer=has_explorer)
        assert attack not in page
        assert page.count("alert(1)") == n, "in the table, and in the figures"
