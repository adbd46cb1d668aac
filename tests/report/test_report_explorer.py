from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.report.page import explorer as module
from rag_assets.report.page.environment import shortened
from rag_assets.report.page.explorer import explorer
from rag_assets.report.result import EvaluationResult
from rag_assets.report.view import Context, View
from tests.tiny_experiment import Tiny


@pytest.fixture(scope="module")
def context(tiny_result: EvaluationResult) -> Context:
    found = explorer(View(tiny_result))
    assert found is not None
    return found


def test_results_are_those_of_the_run(tiny_result: EvaluationResult, context: Context) -> None:
    data = context["data"]
    for number, name in enumerate(data["retrievers"]):
        run = tiny_result.table(tiny_result.run_keys(name)[5]).to_pylist()
        for query in data["queries"]:
            wanted = [row["document_id"] for row in run if row["query_id"] == query["i"]]
            units = [data["units"][unit] for unit in query["r"][number]]
            assert [data["documents"][unit[0]][0] for unit in units] == wanted


def test_texts_are_those_of_the_documents(tiny_result: EvaluationResult, context: Context) -> None:
    texts = {
        row["document_id"]: row["text"] for row in tiny_result.table_of("documents").to_pylist()
    }
    data = context["data"]
    assert context["n_without_text"] == 0
    for document, start, end, first, text in data["units"]:
        assert (first, text) == (start, texts[data["documents"][document][0]][start:end])
    spans = [(document, start, end) for document, start, end, *_ in data["units"]]
    assert len(spans) == len(set(spans))


def test_relevant_results_are_where_the_metric_is(context: Context) -> None:
    """Without a relevant result the value is 0, with one it is above."""
    data = context["data"]
    for query in data["queries"]:
        for number in range(len(data["retrievers"])):
            assert (query["v"][number] > 0) == bool(query["h"][number])


def test_evidence_names_its_span_and_ranks(context: Context) -> None:
    data = context["data"]
    (query,) = (query for query in data["queries"] if query["i"] == "q3")
    assert len(query["e"]) == 2
    for one in query["e"]:
        ((_, start, end),) = one["s"]
        assert start < end
        for rank, place in zip(one["k"], one["l"], strict=True):
            if data["places"][place] == "found":
                assert 1 <= rank <= data["k"]


def test_queries_that_differ_most_come_first(context: Context) -> None:
    spreads = [max(query["v"]) - min(query["v"]) for query in context["data"]["queries"]]
    assert spreads == sorted(spreads, reverse=True)


def test_queries_that_do_not_fit_are_left_out_and_counted(
    tiny_result: EvaluationResult, monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    monkeypatch.setattr(module, "CELLS", 11)
    found = explorer(View(tiny_result))
    assert found is not None
    assert (found["n_shown"], found["n_queries"]) == (2, 6)
    kept = [query["i"] for query in found["data"]["queries"]]
    assert kept == [query["i"] for query in context["data"]["queries"][:2]]


def test_long_names_are_cut() -> None:
    assert shortened("a" * 160) == "a" * 160
    assert shortened("a" * 161) == "a" * 160 + "..."


def test_without_labels_a_judged_document_is_shown_by_its_best_chunk(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    tiny.config["dataset"]["judge"] = "document"
    tiny.write()
    (tiny.folder / "judgments.jsonl").unlink()
    tiny.run()
    result = EvaluationResult(tiny.artifacts, tiny.snapshot())
    found = explorer(View(result))
    assert found is not None
    data = found["data"]
    starts = {
        row["chunk_id"]: row["start"]
        for entry in result.evaluation.entries_of("chunks")
        for row in result.table(entry.key).to_pylist()
    }
    number = data["retrievers"].index("bm25")
    run = result.table(result.run_keys("bm25")[5]).to_pylist()
    for query in data["queries"]:
        wanted = [starts[row["chunk_id"]] for row in run if row["query_id"] == query["i"]]
        assert [data["units"][unit][1] for unit in query["r"][number]] == wanted
    assert any(start > 0 for _, start, *_ in data["units"])
