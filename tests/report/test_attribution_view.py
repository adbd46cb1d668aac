from __future__ import annotations

import io

import pytest
from rich.console import Console

from rag_assets.evaluation.attribution import PLACES
from rag_assets.report.attribution import (
    Row,
    attribution_rows,
    attribution_sheet,
    lost_rows,
    lost_sheets,
)
from rag_assets.report.latency import latency_sheets
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import Sheet
from rag_assets.report.terminal_table import sheets_view
from tests.shown_board import evaluated
from tests.tiny_experiment import JUDGMENTS, QUERIES, Tiny


def drawn(*sheets: Sheet, width: int = 80) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, highlight=False).print(sheets_view(sheets))
    return text.getvalue().splitlines()


def row(**values: object) -> Row:
    counts = {place: 0 for place in PLACES} | {f"{place}_share": 0.0 for place in PLACES}
    lead = {"retriever": "bm25", "split": "all", "top_k": 10, "n_evidences": 4000}
    return {**lead, **counts, "recall": 0.5, "ceiling": None, **values}


def test_places_where_nothing_is_are_left_out() -> None:
    lines = drawn(attribution_sheet("x", [row(found=3000, found_share=0.75, no_chunk=1000)]))
    assert lines[1].split() == ["evi-", "no", "ceil-"]
    assert lines[3].split() == ["bm25", "4000", "3000", "75%", "1000", "0%", "0.5000", "-"]


def test_all_places_and_a_long_name_fit_a_terminal() -> None:
    values = {place: 1234 for place in PLACES}
    name = "hybrid_of_everything_reranked"
    view = attribution_sheet("x", [row(**values, retriever=name, ceiling=0.5)])
    lines = drawn(view)
    assert max(map(len, lines)) <= 80
    assert "".join(line[:14].strip() for line in lines).endswith("everything_reranked")
    assert sum(line.count("1234") for line in lines) == len(PLACES)


def test_a_heading_that_is_left_out_is_named_as_one_word() -> None:
    values = {place: 1234 for place in PLACES}
    lines = drawn(attribution_sheet("x", [row(**values)]), width=50)
    assert lines[-1].endswith("recall, ceiling")


def test_what_a_file_says_is_shown_and_not_obeyed() -> None:
    lost: Row = {
        "retriever": "bm25",
        "query_id": "q[red]1",
        "evidence_id": "e\x1b[2J",
        "lost_at": "no_chunk",
        "rank": None,
        "query": "why [bold]\nnot",
        "rank_in_minilm": 7,
    }
    text = "\n".join(drawn(*lost_sheets([lost])))
    assert "q[red]1" in text
    assert "why [bold]\\nnot" in text
    assert "\x1b" not in text
    assert "bm25: 1 lost (in 1: minilm)" in text


def test_what_was_not_measured_is_a_dash() -> None:
    times = ("queries_per_second", "p50_ms", "p95_ms", "p99_ms", "known_p50_ms", "n_timed")
    costs = ("index_seconds", "index_bytes", "n_embedded", "n_from_cache", "embed_seconds")
    at_once = ("concurrency", "concurrent_p50_ms", "concurrent_p95_ms", "concurrent_p99_ms")
    names = times + costs + at_once
    nothing: Row = {"retriever": "a", **dict.fromkeys(names)}
    much: Row = dict.fromkeys(names, 1234.5)
    much |= {"retriever": "a_name_of_20_letters", "n_embedded": 10_000, "n_from_cache": 90_000}
    much |= {"n_timed": 50, "index_bytes": 10**9, "concurrency": 4}
    lines = drawn(*latency_sheets("x", [nothing, much]))
    assert max(map(len, lines)) <= 80
    assert lines[3].split() == ["a", *["-"] * 9]
    assert any("10000/100000" in line for line in lines)
    assert "a_name_of_20_letters, 4 queries at once" in "\n".join(lines)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """Two queries of each split; a retriever of elsewhere that failed on one of test."""
    tiny = Tiny(tmp_path_factory.mktemp("split") / "tiny").write()
    folds = {"q1": "dev", "q2": "dev", "q3": "test", "q4": "test"}
    queries = [{**q, "fold": folds[q["query_id"]]} for q in QUERIES if q["query_id"] in folds]
    tiny.write_rows("queries.jsonl", queries)
    tiny.write_rows("judgments.jsonl", [row for row in JUDGMENTS if row["query_id"] in folds])
    told = [{"qid": query, "retrieved_ids": ["lost.md"]} for query in ("q1", "q2", "q3")]
    tiny.write_rows("told.jsonl", [*told, {"qid": "q4", "error": "timed out"}])
    bm25 = tiny.config["retrievers"]["bm25-whole"]
    told_by = {"type": "run_file", "path": "told.jsonl", "chunking": "whole"}
    tiny.config |= {"split": {"field": "fold"}, "top_k": [1], "primary": "recall@1"}
    tiny.config |= {"metrics": ["recall"], "retrievers": {"bm25": bm25, "told": told_by}}
    tiny.write_config()
    return evaluated(tiny.pipeline())


def test_the_split_that_the_leaderboard_shows(split: EvaluationResult) -> None:
    names = ["bm25", "told"]
    rows = {row["retriever"]: row for row in attribution_rows(split, names)}
    assert [(row["split"], row["n_queries"]) for row in rows.values()] == [("test", 2), ("test", 1)]
    board = {r["retriever"]: r for r in split.leaderboard.to_pylist() if r["split"] == "test"}
    for name, row in rows.items():
        assert row["recall"] == board[name]["recall"]
        assert row["n_queries"] == board[name]["n_queries"], "a failed query is lost nowhere"
    dev = attribution_rows(split, names, split="dev")
    assert [(row["split"], row["n_queries"]) for row in dev] == [("dev", 2), ("dev", 2)]
    assert drawn(attribution_sheet("x", dev))[0] == "x: where the evidences are, at top_k 1, dev"
    assert {row["query_id"] for row in lost_rows(split, ["told"])} == {"q3"}
    by_tag = attribution_rows(split, ["bm25"], "tag")
    assert {row["tag"] for row in by_tag} == {"safety"}, "q3 and q4"
