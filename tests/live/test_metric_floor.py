"""The fixture ``metric_floor`` fails a test, with the table, when a metric drops."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

PLUGIN = "rag_assets.pytest_plugin"
ROOT = Path(__file__).resolve().parents[2]

SEARCH = """
import rag_assets

DOCUMENTS = ["A dog needs a ticket.", "The harbour closes in a storm.", "Bikes are free."]

def evaluated(first, fails=False):
    def mine(query, k):
        if fails and "dog" in query:
            raise OSError("down")
        return [first]

    return rag_assets.evaluate(
        documents=DOCUMENTS, queries=["dog", "storm"], judgments={0: [0], 1: [1]},
        retrievers={"mine": mine, "bm25": rag_assets.BM25()}, top_k=[1],
        settings={"metrics": ["hit_rate", "mrr"]},
    )
"""


def run(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(
        search=SEARCH, test_search=f"import pytest\nfrom search import evaluated\n{test}"
    )
    # Libraries of compiled code cannot be loaded twice by one process, as pytester does.
    return pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider", *options)


def test_declared_floors(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.fixture(scope="module")
def result():
    return evaluated(2)

def test_reached(metric_floor, result):
    metric_floor(result, {"hit_rate@1": 1, "mrr@1": 0.4}, retriever="bm25")

def test_tolerated(metric_floor, result):
    metric_floor(result, {"hit_rate@1": 0.1}, retriever="mine", tolerance=0.1)

def test_below(metric_floor, result):
    metric_floor(result, {"hit_rate@1": 0.5, "mrr@1": 0}, retriever="mine")

def test_failed_queries(metric_floor):
    metric_floor(evaluated(1, fails=True), {"hit_rate@1": 0.5}, retriever="mine")
""",
    )
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "below the floor of mine: hit_rate@1",
            "metric * mean   floor  difference",
            "hit_rate@1  0.0000 (0.000 to 1.000)  0.5000     -0.5000  below",
            "mrr@1 *0.0000 (0.000 to 1.000)  0.0000     +0.0000  ok",
            "live: *",
            "1   bm25 *",
            "2~  mine *",
            "not all queries count",
            "mine failed on queries: 0: OSError: down",
            "hit_rate@1  1.0000  0.5000     +0.5000  ok",
        ]
    )


KEPT = """
from pathlib import Path
from rag_assets import metrics

def test_search(metric_floor):
    first = (Path(__file__).parent / "first.txt").read_text()
    scores = metrics({"q": [first, "b"], "r": ["c"]}, {"q": ["a"], "r": ["b"]}, ["mrr", "P@1"])
    metric_floor(scores, ["P@1", "mrr"])
"""


@pytest.mark.slow
def test_kept_values(pytester: pytest.Pytester) -> None:
    first, kept = pytester.path / "first.txt", pytester.path / "test_search.metrics.json"
    first.write_text("a", encoding="utf-8")
    unknown = run(pytester, KEPT)
    unknown.assert_outcomes(failed=1)
    unknown.stdout.fnmatch_lines(["*keeps no P@1, mrr of test_search; run pytest *"])
    assert not kept.exists()
    run(pytester, KEPT, "--rag-assets-store-metrics").assert_outcomes(passed=1)
    assert json.loads(kept.read_text(encoding="utf-8")) == {"test_search": {"P@1": 0.5, "mrr": 0.5}}
    run(pytester, KEPT).assert_outcomes(passed=1)
    first.write_text("c", encoding="utf-8")
    dropped = run(pytester, KEPT)
    dropped.assert_outcomes(failed=1)
    dropped.stdout.fnmatch_lines(["below the floor: P@1, mrr"])
    run(pytester, KEPT, "--rag-assets-store-metrics").assert_outcomes(passed=1)


def test_scores_of_a_run_and_what_is_wrong(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import pytest
from rag_assets import metrics
from rag_assets.errors import UsageError

SCORES = metrics({"q": {"a": 2, "b": 1}}, {"q": {"b": 1}}, ["mrr", "ndcg@10"])
NAMED = {"dict": {"nope": 1.0}, "list": ["ndcg@10"], "text": "mrr", "floor": {"mrr": "0.5"}}
NAMED["mistakes"] = {"fp@2": 1}

def test_reached(metric_floor):
    metric_floor(SCORES, {"mrr": 0.5})

def test_below(metric_floor):
    metric_floor(SCORES, {"mrr": 0.51})

@pytest.mark.parametrize("case", NAMED)
def test_wrong(metric_floor, case):
    with pytest.raises(UsageError, match={
        "dict": "no value of the metric 'nope'; allowed: mrr, ndcg@10",
        "list": "run pytest --rag-assets-store-metrics once",
        "text": "metrics is a text, 'mrr'; expected a list or a dict",
        "mistakes": "fp@2 is better when lower, but a floor is what a mean must reach",
        "floor": "the floor of mrr is '0.5'; expected a number",
    }[case]):
        metric_floor(SCORES, NAMED[case])

def test_no_result(metric_floor):
    with pytest.raises(UsageError, match="the result is dict {}; expected what evaluate"):
        metric_floor({}, {"mrr": 0.5})
""",
    )
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(["below the floor: mrr", "mrr *0.5000  0.5100*", "Scores(means=*"])


def test_pytest_finds_it_by_an_entry_point_that_imports_next_to_nothing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}
    assert hasattr(import_module(PLUGIN), "metric_floor")
    assert own_modules(f"import pytest, {PLUGIN}") <= {
        "rag_assets",
        "rag_assets.api",
        "rag_assets.errors",
        "rag_assets.plain_text",
        PLUGIN,
    }


def own_modules(code: str) -> set[str]:
    """Return the modules that a process has after some code, without the standard library's."""
    shown = "import sys, json; print(json.dumps([m for m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{shown}"], capture_output=True, text=True, check=True
    )
    bare = subprocess.run(
        [sys.executable, "-c", f"import pytest\n{shown}"],
        capture_output=True,
        text=True,
        check=True,
    )
    new = set(json.loads(done.stdout)) - set(json.loads(bare.stdout))
    return {name for name in new if name.partition(".")[0] not in sys.stdlib_module_names}
