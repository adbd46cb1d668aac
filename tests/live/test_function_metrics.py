"""Metrics that are functions of the caller's, in an evaluation of a path and of objects."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rag_assets
from rag_assets.errors import ConfigError, UsageError
from rag_assets.evaluation.metric_names import highest_value, metric_columns
from rag_assets.evaluation.score import function_measures
from rag_assets.report.evaluation_table import EvaluationTable
from tests.tiny_experiment import Tiny

SOURCE = """
def precise(grades, r):
    return sum((grade or 0) > 0 for grade in grades) / {of}


def deepest(grades, r):
    return float(max((rank for rank, grade in enumerate(grades, 1) if grade), default=0))
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Write a module and return its functions; another name stands for an edited file."""
    monkeypatch.syspath_prepend(tmp_path)

    def written(module: str, of: str = "len(grades)") -> list[Any]:
        (tmp_path / f"{module}.py").write_text(SOURCE.format(of=of), encoding="utf-8")
        importlib.invalidate_caches()
        loaded = importlib.import_module(module)
        return [loaded.precise, loaded.deepest]

    return written


def objects_of(evaluation: EvaluationTable) -> dict[tuple[str, str], str]:
    """(Asset, partition) -> fingerprint."""
    entries = evaluation.evaluation.entries
    return {(entry.asset, str(entry.partition)): entry.fingerprint for entry in entries}


def test_a_journey(
    computed: Tiny,
    tmp_path: Path,
    functions: Callable[..., list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a metric of ours; then no change; edited; and what the terminal sees of it."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    tiny = Tiny(tmp_path).start_from(computed).write()
    tiny.config["metrics"] = ["set_p", "ndcg"]
    for name in ("bm25-whole", "hybrid", "shallow"):
        del tiny.config["retrievers"][name]
    tiny.write_config()
    path, store = tiny.folder, tiny.settings.store
    first = rag_assets.evaluate(path, store, metrics=functions("measures_of_first"))
    rows = first.leaderboard.to_pylist()
    assert rows
    assert [row["own_precise"] for row in rows] == [row["set_p"] for row in rows]
    assert max(row["own_deepest"] for row in rows) > 1
    for name, table in first.query_metrics(3).items():
        assert table["own_precise"].to_pylist() == table["set_p"].to_pylist(), name
    again = rag_assets.evaluate(path, store, metrics=functions("measures_of_first"))
    assert (again.evaluation.computed, again.evaluation.content) == (0, first.evaluation.content)
    edited = rag_assets.evaluate(path, store, metrics=functions("measures_edited", "max(r, 8)"))
    before, after = objects_of(first), objects_of(edited)
    changed = {asset for (asset, _), new in after.items() if new not in before.values()}
    assert changed == {"metrics", "metrics_summary", "leaderboard", "intervals", "comparisons"}
    own = ("--metric", "own_precise@5")
    boards = {
        words: tiny.command(*words, columns=200)
        for words in (
            ("leaderboard", "."),
            ("compare", ".", "bm25", "okapi", *own),
            ("history", ".", *own),
            ("gate", ".", "--against", "previous", *own),
            ("leaderboard", ".", "--format", "json"),
        )
    }
    for words, board in boards.items():
        assert "own_precise" in board.output, words
        assert board.exception is None or isinstance(board.exception, SystemExit), words
    assert "functions.own_precise" in boards["history", ".", *own].output
    evaluated = tiny.command("evaluate", ".")
    assert evaluated.exit_code == 0, evaluated.output
    assert "own_precise" not in tiny.command("leaderboard", ".", "--format", "json").output
    history = tiny.command("history", ".", columns=200).output
    assert "metrics: own_precise, own_deepest removed" in history, history


RECORDS: dict[str, Any] = {
    "documents": {"a": "a dog needs a ticket", "b": "storms close the harbour", "c": "bikes"},
    "queries": {"q1": "dog ticket", "q2": "storms harbour"},
    "judgments": {"q1": {"a": 1, "c": -2}, "q2": {"b": 2, "c": 0}},
    "retrievers": {"mine": lambda query, k: ["c", "a", "b"][:k]},
    "top_k": [3],
}


def test_what_a_function_sees() -> None:
    """Grades as they are in the labels, below 0 too."""
    seen = []

    def graded(grades: list[int | None], r: int) -> float:
        seen.append((grades, r))
        return 2.5

    result = rag_assets.evaluate(**RECORDS, metrics=[graded])
    assert seen == [([-2, 1, None], 1), ([0, None, 2], 1)]
    (row,) = result.leaderboard.to_pylist()
    assert row["own_graded"] == 2.5
    result.scores([graded])
    assert seen[2:] == seen[:2]


def second(grades: list[int | None], r: int) -> Any:
    return WRONG["second"]


WRONG: dict[str, object] = {}


@pytest.mark.parametrize(
    ("value", "problem"),
    {
        None: "failed on query 'q1': TypeError",
        float("nan"): "must lie from 0 to 1.8e+308; found nan for query 'q1'",
        -0.5: "must lie from 0 to 1.8e+308; found -0.5 for query 'q1'",
    }.items(),
)
def test_what_is_no_number(value: object, problem: str) -> None:
    WRONG["second"] = value
    with pytest.raises(UsageError, match=re.escape(f"metric 'own_second' {problem}")):
        rag_assets.evaluate(**RECORDS, metrics=[second])


def recall(grades: list[int | None], r: int) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        ([lambda grades, r: 1.0], "metrics has '<lambda>'; expected functions by `def`"),
        ([recall], "metrics has 'recall'; expected functions by `def`"),
        ([second, second], "two metrics have the name 'second'"),
        (
            ["mrr"],
            "metrics has 'mrr'; expected functions by `def`, in small letters and underscores; ",
        ),
        ([5], "metrics has 'int'; expected functions"),
        ("mrr", "metrics is 'mrr'; expected a list of functions"),
        (second, "expected a list of functions"),
    ],
)
def test_what_is_refused(metrics: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        rag_assets.evaluate(**RECORDS, metrics=metrics)


def test_where_no_function_can_be_given(tmp_path: Path) -> None:
    where = "is a function of Python; give it to `rag_assets.evaluate(..., metrics=[...])`"
    for key, value in {"metrics": ["own_second"], "primary": "own_second@3"}.items():
        with pytest.raises(ConfigError, match=re.escape(where)):
            rag_assets.evaluate(**RECORDS, settings={key: value})
    with pytest.raises(UsageError, match=re.escape(where)):
        rag_assets.metrics({"q": ["a"]}, {"q": ["a"]}, ["own_second@3"])


def test_the_version_is_that_of_the_source(functions: Callable[..., list[Any]]) -> None:
    """What is made while the program runs has none, and is computed each time."""

    def made(grades: list[int | None], r: int) -> float:
        return 1.0

    versions = [function_measures(functions(name))["own_precise"].version for name in "pq"]
    assert versions[0] == versions[1]
    (edited, _) = function_measures(functions("s", "8")).values()
    assert edited.version != versions[0]
    first, other = (function_measures([made])["own_made"].version for _ in range(2))
    assert first != other


def test_columns_are_the_last_and_have_no_highest_value() -> None:
    names = ["own_b", "answer_hit", "own_a", "ndcg", "judged"]
    assert metric_columns(names) == ["ndcg", "answer_hit", "own_a", "own_b"]
    assert highest_value("own_a") > 1e300
