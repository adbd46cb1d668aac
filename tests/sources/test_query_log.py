"""Query logs: what was asked, and how often."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.experiment import load_experiment
from rag_assets.sources import open_dataset
from rag_assets.sources.problems import Problems

Write = Callable[[Mapping[str, str | bytes]], Path]

DOCUMENT = {"a.md": "Fares rise.\n"}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read(folder: Path) -> list[tuple[str, str, dict[str, Any]]]:
    rows = open_dataset(folder).read_queries().table.to_pylist()
    return [(row["query_id"], row["text"], json.loads(row["metadata"])) for row in rows]


def lines(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_equal_texts_are_summed(write: Write) -> None:
    """The id does not depend on the order, so that tomorrow's log has the same ids."""
    log = lines(
        {"text": "fares"},
        {"text": "  dogs\n", "count": 3, "page": "home"},
        {"text": "fares ", "count": 5},
        {"text": "dogs", "page": "other"},
        {"text": "Dogs"},
    )
    assert read(write({**DOCUMENT, "query_log.jsonl": log})) == [
        (sha("fares"), "fares", {"count": 6}),
        (sha("dogs"), "dogs", {"count": 4, "page": "home"}),
        (sha("Dogs"), "Dogs", {"count": 1}),
    ]
    assert sha("fares") == "e9fdc00e7a22"


def test_csv_with_ids_and_tags(write: Write) -> None:
    log = 'query_id,query,count,tags\nq1,fares,2,"a, b"\n,dogs, 4 ,\nq1,fares,1,c\n'
    folder = write({**DOCUMENT, "query_log.csv": log})
    assert read(folder) == [
        ("q1", "fares", {"count": 3}),
        (sha("dogs"), "dogs", {"count": 4}),
    ]
    assert open_dataset(folder).read_queries().table["tags"].to_pylist() == [["a", "b"], []]


@pytest.mark.parametrize("count", [0, -3, 2.5, "2", "many", None, [1], 2**53 + 1])
def test_counts(write: Write, count: object) -> None:
    log = lines({"text": "fares"}, {"text": "dogs", "count": count})
    folder = write({**DOCUMENT, "query_log.jsonl": log})
    if count in (None, "2"):
        assert read(folder)[1][2] == {"count": 2 if count else 1}
        return
    with pytest.raises(DataError) as caught:
        read(folder)
    place = f"{folder / 'query_log.jsonl'}:2: `count`: is "
    assert str(caught.value) == f"{place}{count!r}; must be an integer from 1 to 2^53"


def test_every_bad_line_is_collected(write: Write) -> None:
    log = lines({"text": "a", "count": 0}, {"count": 1}, {"text": "b", "count": -1}, {"text": "c"})
    folder = write({**DOCUMENT, "query_log.jsonl": log})
    problems = Problems(collect=True)
    table = open_dataset(folder).read_queries(problems).table
    assert [str(p).split(":")[1] for p in problems.collected or ()] == ["1", "2", "3"]
    assert table["text"].to_pylist() == ["c"]


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        (
            lines({"text": "a", "query_id": "x"}, {"text": "a", "query_id": "y"}),
            ":2: `query_id`: the text has the id 'y' here, and 'x' on line 1",
        ),
        (
            lines({"text": "a", "query_id": "x"}, {"text": "b", "query_id": "x"}),
            ":2: `query_id`: query id 'x' occurs twice, first on line 1",
        ),
        ("", ": holds no query; at least one is needed"),
    ],
)
def test_contradictions(write: Write, log: str, problem: str) -> None:
    folder = write({**DOCUMENT, "query_log.jsonl": log})
    with pytest.raises(DataError) as caught:
        read(folder)
    assert str(caught.value) == f"{folder / 'query_log.jsonl'}{problem}"


@pytest.mark.parametrize("queries", ["queries.jsonl", "queries.csv"])
@pytest.mark.parametrize("log", ["query_log.jsonl", "query_log.csv"])
def test_queries_and_a_log_are_one_too_many(write: Write, queries: str, log: str) -> None:
    folder = write({**DOCUMENT, queries: "", log: ""})
    with pytest.raises(DataError) as caught:
        read(folder)
    assert str(caught.value) == f"{folder / log}: {queries} exists too; keep one of them"


def test_two_logs_are_one_too_many(write: Write) -> None:
    folder = write({**DOCUMENT, "query_log.jsonl": "", "query_log.csv": ""})
    with pytest.raises(DataError, match=r"query_log\.csv: query_log\.jsonl exists too; keep one"):
        read(folder)


@pytest.mark.parametrize(
    ("yaml", "weight"),
    [("", "count"), ("weight: null\n", None), ("weight: clicks\n", "clicks")],
)
def test_a_log_weighs_by_default(write: Write, yaml: str, weight: str | None) -> None:
    files = {**DOCUMENT, "query_log.jsonl": lines({"text": "a"}), "experiment.yaml": yaml}
    assert load_experiment(write(files)).weight == weight


def test_queries_do_not(write: Write) -> None:
    files = {**DOCUMENT, "queries.jsonl": lines({"query_id": "q", "text": "a", "count": 2})}
    assert load_experiment(write(files)).weight is None


@given(st.lists(st.tuples(st.sampled_from(["a", " a", "b", "c "]), st.integers(1, 9)), min_size=1))
def test_no_count_is_lost(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    (folder / "a.md").write_text("Fares rise.\n")
    rows = lines(*({"text": text, "count": count} for text, count in asked))
    (folder / "query_log.jsonl").write_text(rows)
    table = open_dataset(folder).read_queries().table
    counts = [json.loads(text)["count"] for text in table["metadata"].to_pylist()]
    assert sum(counts) == sum(count for _, count in asked)
    assert len(counts) == len({text.strip() for text, _ in asked})
