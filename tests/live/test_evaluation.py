"""``rag_assets.evaluate`` over what is given in code, without a file."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import tempfile
from collections import UserDict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rag_assets
from rag_assets.called.asked import ALWAYS
from rag_assets.called.hits import Hit, Rejected, hits_of
from rag_assets.errors import ConfigError, DataError, NotEvaluated, UsageError
from rag_assets.live import LiveRetriever
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.retrieval.workspace import NO_WORKSPACE

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = {
    "fares": "A single ticket costs 40 crowns.\n\nA dog needs a ticket of 10 crowns.",
    "storm": "The southern harbour closes in a storm.\n\nA ticket is then valid on the next day.",
    "bikes": "A bike needs no ticket in summer.",
}
QUERIES = {"q1": "ticket for a dog", "q2": "southern harbour", "q3": "summer bike"}
JUDGMENTS = {"q1": ["fares"], "q2": ["storm"], "q3": ["bikes"]}
METRICS = {"metrics": ["mrr", "hit_rate"]}
SMALL = {"top_k": [2], "settings": METRICS}


def evaluated(retrievers: dict[str, object], **given: Any) -> EvaluationTable:
    data = {"documents": DOCUMENTS, "queries": QUERIES, "judgments": JUDGMENTS}
    return rag_assets.evaluate(**{**data, **SMALL, "retrievers": retrievers, **given})


def board(result: EvaluationTable, metric: str = "mrr") -> dict[str, float]:
    rows = result.leaderboard.to_pylist()
    return {row["retriever"]: row[metric] for row in rows}


def first_of_all(query: str, k: int) -> list[str]:
    return list(DOCUMENTS)[:k]


class Own:
    """A retriever as LangChain has them: documents with ``page_content``."""

    def invoke(self, query: str) -> list[object]:
        part = DOCUMENTS["fares"].split("\n\n")[1]
        return [SimpleNamespace(page_content=part, metadata={"source": "fares"})]


async def awaited(query: str) -> list[tuple[str, int, int]]:
    await asyncio.sleep(0)
    return [("storm", 0, 10)]


def returning(*documents: str) -> Callable[[str], list[str]]:
    return lambda query: [*documents]


@pytest.fixture(scope="module")
def result() -> Iterator[EvaluationTable]:
    """Functions at hand need no leave, also where code of a pull request would."""
    of = {text: query_id for query_id, text in QUERIES.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_EVENT_NAME", "pull_request")
        retrievers = {
            "function": first_of_all,
            "object": Own(),
            "awaited": awaited,
            "texts": {"call": lambda query, k: ["in a storm."], "returns": "texts"},
            "bm25": {"type": "bm25"},
            "search": lambda query, k: [(JUDGMENTS[of[query]][0], 0.5)],
            "tfidf": {"type": "tfidf"},
            "both": {"type": "rrf", "inputs": ["function", "bm25"]},
            "one": returning("fares"),
            "another": returning("bikes", "storm"),
        }
        chunking = {"whole": {"strategy": "none"}}
        yield evaluated(retrievers, settings={**METRICS, "chunking": chunking})


def test_values_are_those_that_follow_from_what_was_returned(result: EvaluationTable) -> None:
    assert result.evaluation.complete
    values = board(result)
    assert values["function"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert board(result, "hit_rate")["function"] == pytest.approx(2 / 3)
    alone = {name: values[name] for name in ("object", "awaited", "texts", "one")}
    assert alone == dict.fromkeys(alone, pytest.approx(1 / 3))
    assert values["bm25"] == values["search"] == values["tfidf"] == 1.0
    assert values["both"] > values["function"]
    assert values["another"] == pytest.approx((0 + 1 / 2 + 1) / 3), "of the same name as one"


def test_two_retrievers_of_it_are_compared(result: EvaluationTable) -> None:
    pair = rag_assets.compare(result, "function", "bm25", metric="mrr@2")
    assert [row["difference"] for row in pair.rows] == [pytest.approx(1 - 0.5)]
    assert repr(pair).startswith("live: differences in mrr@2\n")
    with pytest.raises(NotEvaluated, match="nope"):
        rag_assets.compare(result, "function", "nope")


def test_a_retriever_that_fails_counts_as_failed_and_not_as_0() -> None:
    def fails(query: str, k: int) -> list[str]:
        if "dog" in query:
            raise RuntimeError("no dogs")
        return first_of_all(query, k)

    found = evaluated({"fails": fails, "bm25": {"type": "bm25"}})
    assert not found.evaluation.complete
    assert board(found)["fails"] == pytest.approx((1 / 2 + 0) / 2)
    assert "fails failed on queries: q1: RuntimeError: no dogs" in repr(found)


def test_without_labels_retrievers_are_compared() -> None:
    found = evaluated({"a": first_of_all, "b": {"type": "bm25"}}, judgments=None)
    assert not found.has_metrics
    with pytest.raises(NotEvaluated, match="no labels"):
        found.plot()
    title = "live: no labels yet, so no metric; 3 queries\n"
    assert repr(found).startswith(title)
    assert "share of common units by top_k" in repr(found)


def test_quotes_are_judged_as_evidence() -> None:
    quoted = [
        {"query_id": "q1", "doc_id": "fares", "quote": "A dog needs a ticket of 10 crowns."},
        {"query_id": "q2", "doc_id": "storm", "quote": "A ticket is then valid on the next day."},
    ]
    assert board(evaluated({"own": Own()}, judgments=quoted)) == {"own": 0.5}


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = evaluated({"own": first_of_all})
    assert len(list(tmp_path.iterdir())) == 1
    assert found.leaderboard.num_rows == 1
    del found
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="unknown document"):
        evaluated({"own": first_of_all}, judgments={"q1": ["none"]})
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_used_again_unless_the_state_of_a_search_is_unknown(tmp_path: Path) -> None:
    asked: list[str] = []

    def closure(query: str, k: int) -> list[str]:
        asked.append(query)
        return first_of_all(query, k)

    def computed(**retrievers: object) -> int:
        return evaluated(retrievers, store=tmp_path, name="ferry").evaluation.computed

    known = {"source": first_of_all, "known": {"call": closure, "revision": "1"}}
    assert computed(**known) > 0
    before = len(asked)
    assert computed(**known) == 0
    assert len(asked) == before > 0
    computed(known=closure)
    computed(known=closure)
    assert len(asked) == 3 * before


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no retriever": ({"retrievers": {}}, "retrievers is dict {}; expected a dict of"),
    "names alone": ({"retrievers": ["a"]}, "retrievers is list ['a']; expected a dict"),
    "a number": (
        {"retrievers": {"a": 3}},
        "retrievers['a'] is int 3; expected a function of (query, k) or of the query; an object",
    ),
    "a name": ({"retrievers": {"A b": first_of_all}}, "`retrievers.A b`: 'A b' is not"),
    "an option": (
        {"retrievers": {"a": {"type": "bm25", "k1": -1}}},
        "`retrievers.a.k1`: should be greater than or equal to 0",
    ),
    "an option of a function": (
        {"retrievers": {"a": {"call": first_of_all, "retuns": "texts"}}},
        "`retrievers.a.retuns`: unknown key 'retuns' (did you mean 'returns'?)",
    ),
    "a setting as an argument": (
        {"split": {"dev": 0.5}},
        "evaluate has no argument 'split'; a setting goes into `settings={'split': {'dev': 0.5}}`",
    ),
    "labels": (
        {"qrels": {"q1": ["d1"]}},
        "evaluate has no argument 'qrels'; labels go into `judgments`",
    ),
    "a setting": ({"settings": {"topk": [1]}}, "`topk`: unknown key 'topk'"),
    "retrievers twice": (
        {"settings": {"retrievers": {}}},
        "settings has retrievers; give them only as `retrievers`",
    ),
    "a metric": ({"settings": {"primary": "mmr@1"}}, "`primary`: unknown metric"),
    "an experiment's name": ({"name": "My search"}, "`name`: 'My search' is not a name"),
    "no documents": ({"documents": None}, "`documents` is missing; give documents,"),
    "both": ({"path": "data"}, "give a path, or documents, queries and retrievers"),
    "a function of nothing": ({"retrievers": {"a": lambda x, y, z: []}}, "cannot be called with"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_says_what_was_given_and_what_is_expected(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises((ConfigError, UsageError), match=re.escape(message)) as error:
        evaluated(**{"retrievers": {"a": first_of_all}, **given})
    assert tempfile.gettempdir() not in str(error.value)


TEN_LINES = """
import rag_assets
documents = ["A dog needs a ticket.", "The harbour closes in a storm.", "Bikes are free."]
queries = ["ticket for a dog", "storm"]
def retrieve(query, k):
    words = set(query.split())
    return sorted(range(3), key=lambda n: -len(words & set(documents[n].split())))[:k]
result = rag_assets.evaluate(documents=documents, queries=queries, judgments={0: [0], 1: [1]},
                             retrievers={"mine": retrieve, "bm25": {"type": "bm25"}})
print(result)
import sys
print(sorted({"dagster", "torch", "transformers", "plotly"} & set(sys.modules)))
"""


def test_ten_lines_in_a_project_of_ones_own_need_no_dagster_and_no_model(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TEN_LINES, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\n2~ +mine +0\.8155 +\[0\.0000, 1\.0000\]", done.stdout), done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
    assert [file.name for file in tmp_path.iterdir()] == ["mine.py"]


def test_tables_of_several_partitions_are_one(result: EvaluationTable) -> None:
    metrics = result.table_of("metrics")
    assert metrics.column_names[:2] == ["retriever", "top_k"]
    assert len(metrics) == sum(
        len(table)
        for k in set(metrics["top_k"].to_pylist())
        for table in result.query_metrics(k).values()
    )
    with pytest.raises(UsageError, match="unknown asset 'metric' \\(did you mean 'metrics'"):
        result.table_of("metric")


def retriever(call: Callable[..., object], **options: object) -> LiveRetriever:
    block = LiveRetriever.block("mine", {"type": "python", "call": call, **options})
    return LiveRetriever.model_validate(block)


def retrieve(query: str, k: int) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("answer", "hits"),
    [
        ([3, "a"], [Hit(id="3"), Hit(id="a")]),
        (np.array([2, 0]), [Hit(id="2"), Hit(id="0")]),
        ((n for n in (1,)), [Hit(id="1")]),
        ([(7, 0.5), [np.int32(8), None]], [Hit(id="7", score=0.5), Hit(id="8")]),
        ([(4, 0, 9)], [Hit(document_id="4", start=0, end=9)]),
        (
            [{"id": 5}, {"doc_id": 6, "start": 1, "end": 2}],
            [Hit(id="5"), Hit(document_id="6", start=1, end=2)],
        ),
        ([Hit(text="a text")], [Hit(text="a text")]),
    ],
)
def test_whole_numbers_are_ids(answer: object, hits: list[Hit]) -> None:
    with retriever(lambda query, k: answer).opened(NO_WORKSPACE) as search:
        (result,) = search(["a query"], 5)
    assert (result.error, result.hits) == (None, hits)


@pytest.mark.parametrize("answer", [3, "abc", None, [True], [1.5], [[]], UserDict()])
def test_what_is_no_list_of_hits_is_refused(answer: object) -> None:
    with pytest.raises(Rejected, match=r"hit 1 is|returned "):
        hits_of(answer, 5)


def test_what_is_known_of_an_object_and_what_is_stored() -> None:
    own = retriever(retrieve)
    assert own.revision is None
    assert set(own.versions()) == {"called_source"}
    made = retriever(lambda query: [])
    assert (made.revision, dict(made.versions())) == (ALWAYS, {})
    said = retriever(retrieve, revision="2")
    assert (said.revision, dict(said.versions())) == ("2", {})
    own = retriever(retrieve)
    assert own.load() is retrieve
    assert own.asked_as()["call"] == "mine:retrieve"
    assert not {"target", "called_source"} & own.model_dump(mode="json").keys()
    assert own.describe_for_plan() == ["runs mine:retrieve of this process"]
    assert not own.runs_code


def test_metrics_that_are_functions() -> None:
    """Of the retriever's own run at each cut-off: at 3, relevant units stand at ranks 2 and 3."""

    def first_rank(grades: list[int | None], r: int) -> float:
        assert r == 1
        return float(next((rank for rank, grade in enumerate(grades, 1) if grade), 0))

    result = rag_assets.evaluate(
        documents={"a": "a dog needs a ticket", "b": "storms close the harbour", "c": "bikes"},
        queries={"q1": "dog ticket", "q2": "storms harbour", "q3": "nothing"},
        judgments={"q1": ["a"], "q2": {"b": 2, "c": 0}},
        retrievers={"bm25": {"type": "bm25"}, "mine": lambda query, k: ["c", "a", "b"][:k]},
        top_k=[1, 3],
    )
    rows = result.scores([first_rank, "set_P", "mrr"]).to_pylist()
    assert [(row["retriever"], row["top_k"], row["n_queries"]) for row in rows] == [
        *(("bm25", 1, 2), ("bm25", 3, 2), ("mine", 1, 2), ("mine", 3, 2))
    ]
    assert [row["first_rank"] for row in rows] == [1.0, 1.0, 0.0, 2.5]
    assert rows[3]["set_P"] == pytest.approx(1 / 3)
    means = {(row["retriever"], row["top_k"]): row["mrr"] for row in result.leaderboard.to_pylist()}
    assert [row["mrr"] for row in rows] == [means[row["retriever"], row["top_k"]] for row in rows]
    with pytest.raises(UsageError, match="metric '<lambda>' failed: ZeroDivisionError"):
        result.scores([lambda grades, r: 1 / 0])
