"""The Python interface."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import rag_assets
from rag_assets import extend
from rag_assets.errors import DataError, NotEvaluated, UsageError
from tests.beir_folder import write_beir
from tests.installed import python

YAML = "retrievers: {a: {type: bm25}, b: {type: bm25, k1: 2}}\ntop_k: [1, 3]\n"
IMPORT = """
import sys
import rag_assets
heavy = {'dagster', 'torch', 'pyarrow', 'duckdb', 'pydantic', 'yaml', 'numpy', 'rich'}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_beir(tmp_path / "tiny", {"experiment.yaml": YAML})


def test_import_is_light(tmp_path: Path) -> None:
    assert python(tmp_path, "-c", IMPORT).stdout == "[]\n"


def test_evaluate(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    for show in (rag_assets.leaderboard, rag_assets.history):
        with pytest.raises(NotEvaluated, match="tiny has no evaluation in"):
            show(folder, store=store)
    part = rag_assets.evaluate(folder, store, retrievers=["b"], top_k=[3])
    assert part.leaderboard.select(["retriever", "top_k"]).to_pylist() == [
        {"retriever": "b", "top_k": 3}
    ]
    assert not part.evaluation.complete
    assert "<strong>incomplete</strong>" in (store / "tiny" / "report.html").read_text("utf-8")
    whole = rag_assets.evaluate(str(folder), str(store))
    assert whole.leaderboard.num_rows == 4
    assert whole.evaluation.complete
    assert whole.evaluation.trigger == "Python"
    assert set(whole.leaderboard["ndcg"].to_pylist()) == {1.0}
    for name in ("RAG_ASSETS_STATE_DIR", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(store))
    assert rag_assets.evaluate(folder).evaluation.computed == 0
    assert (store / "tiny" / "report.html").is_file()
    assert (store / "warehouse.duckdb").is_file()
    assert capfd.readouterr() == ("", "")
    assert rag_assets.leaderboard(folder, store).leaderboard.equals(whole.leaderboard)
    pair = rag_assets.compare(folder, "a", "b", store=store, metric="mrr@1")
    assert [(row["retriever_a"], row["retriever_b"], row["top_k"]) for row in pair.rows] == [
        ("a", "b", 1)
    ]
    known = "unknown retriever 'aa' (did you mean 'a'?); allowed: a, b"
    with pytest.raises(UsageError, match=re.escape(known)):
        rag_assets.compare(folder, "aa", "b", store=store)
    history = rag_assets.history(folder, "mrr@1", store=store, retrievers=["b"])
    values = {(row["retriever"], row["value"]) for row in history.rows if row["retriever"]}
    assert values == {("b", 1.0)}, "the evaluation of a part is a row without a retriever"
    with pytest.raises(UsageError, match="unknown retriever 'c'"):
        rag_assets.history(folder, store=store, retrievers=["c"])


def test_score(tmp_path: Path) -> None:
    run, qrels = tmp_path / "run.trec", tmp_path / "qrels.txt"
    run.write_text("q1 Q0 d2 1 3 t\nq1 Q0 d1 2 2 t\n", encoding="utf-8")
    qrels.write_text("q1 0 d1 1\nq2 0 d1 0\n", encoding="utf-8")
    scores = rag_assets.score(str(run), qrels, ["RR", "P_2"])
    assert scores.means == {"RR": 0.5, "P_2": 0.5}
    assert (scores.n_queries, scores.n_unanswerable) == (1, 1)
    assert scores.n_tied == {2: 0}, "RR has no cut-off"
    assert rag_assets.score(run, qrels, ["mrr"], trec_mean=True).means == {"mrr": 0.25}
    with pytest.raises(UsageError, match="unknown metric"):
        rag_assets.score(run, qrels, ["kappa"])
    with pytest.raises(DataError, match=r"no\.trec: cannot be read"):
        rag_assets.score(tmp_path / "no.trec", qrels, ["mrr"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rag_assets.score({"q": {}}, "qrels", ["mrr"]),  # type: ignore[arg-type]
            "run_path is dict {'q': {}}; expected a file; rag_assets.metrics(run, qrels, names) is",
        ),
        (
            lambda: rag_assets.score("run", "qrels", "mrr"),
            "metrics is str 'mrr'; expected a list, such as ['mrr']",
        ),
        (
            lambda: rag_assets.evaluate(["a", "b"]),  # type: ignore[arg-type]
            "path is list ['a', 'b']; expected a folder or a file; rag_assets.evaluate takes data "
            "by name: documents=, queries=",
        ),
        (
            lambda: rag_assets.compare({"a": 1}, "a", "b"),  # type: ignore[arg-type]
            "path is dict {'a': 1}; expected a folder or a file",
        ),
        (
            lambda: rag_assets.evaluate("path", top_k=3),  # type: ignore[arg-type]
            "top_k is int 3; expected a list, such as [3]",
        ),
        (
            lambda: rag_assets.evaluate(documents=["a"], queries=["a"]),
            "`retrievers` is missing; give documents, queries and retrievers",
        ),
    ],
)
def test_what_is_of_another_kind_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        call()


def test_only_what_is_offered_is_listed() -> None:
    listed = {name for name in dir(rag_assets) if not name.startswith("__")}
    assert listed == set(rag_assets.__all__)
    handed_on = {name for name in vars(extend) if not name.startswith("__")}
    assert sorted(handed_on) == sorted(extend.__all__)
