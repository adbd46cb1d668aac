"""Files that are scored besides TREC's: lists as JSON lines, and labels with groups."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.tools import repetitions, tool_input
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.run_files import UNIT_COLUMNS, read_run_file, read_run_rows
from rag_assets.evaluation.score import score
from tests.made_tables import judgment_table
from tests.sources.files import json_lines

LINE = '{"qid": "q1", "retrieved_ids": ["d3", "d1"], "retrieve_scores": [2.5, 1]}\n'


def run_file(folder: Path, text: str) -> Path:
    path = folder / "run.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def qa_file(folder: Path, ground_truth: dict[str, Any]) -> Path:
    path = folder / "qa.parquet"
    kind = pa.list_(pa.list_(pa.string()))
    columns = {
        "qid": pa.array(list(ground_truth), pa.string()),
        "retrieval_gt": pa.array(list(ground_truth.values()), kind),
        "query": pa.array(["?"] * len(ground_truth)),
    }
    pq.write_table(pa.table(columns), path)
    return path


def test_lists_keep_their_order(tmp_path: Path) -> None:
    path = run_file(tmp_path, LINE + '\n{"query_id": "q2", "retrieved_ids": ["b", "a"]}\n')
    run = read_run_rows(path)
    assert run.listed
    assert run.rows == {
        "q1": [(1, "d3", 2.5), (1, "d1", 1.0)],
        "q2": [(3, "b", 1.0), (3, "a", 0.5)],
    }
    table = read_run_file(path)
    assert table["unit_id"].to_pylist() == ["d3", "d1", "b", "a"]
    assert table["rank"].to_pylist() == [1, 2, 1, 2]
    lists = {"qid": ["q1", "q2"], "retrieved_ids": [["b"], []], "retrieve_scores": [[2.0], []]}
    pq.write_table(pa.table(lists), tmp_path / "run.parquet")
    assert read_run_rows(tmp_path / "run.parquet").hits == {"q1": (("b", 2.0),), "q2": ()}


def test_a_repeated_document_is_refused_with_its_query_and_how_often(tmp_path: Path) -> None:
    rows = [
        {"qid": "fine", "retrieved_ids": ["a"]},
        {"qid": "q1", "retrieved_ids": ["a", "b", "a", "b", "b"]},
        {"qid": "q2", "retrieved_ids": ["a", "a"]},
    ]
    path = run_file(tmp_path, json_lines(rows))
    with pytest.raises(DataError) as caught:
        read_run_file(path)
    assert str(caught.value) == (
        f"{path}:2: `retrieved_ids`: 'a' occurs twice for query 'q1', first on line 2; a unit can "
        "be retrieved only once (`score --dialect autorag` allows repetitions)"
    )
    run = read_run_rows(path, UNIT_COLUMNS, repeats=True)
    data = tool_input(run.hits, run.listed, read_labels(qa_file(tmp_path, {"q1": [["a"]]})))
    assert list(repetitions(data)) == [("q1", "a", 2), ("q1", "b", 3)]


def test_autorags_groups_are_evidences(tmp_path: Path) -> None:
    path = qa_file(tmp_path, {"q": [["a", "b"], ["c"]], "none": [[""]], "null": None})
    judgments, groups = read_labels(path)
    labels = [("q", "1", "a", 1), ("q", "1", "b", 1), ("q", "2", "c", 1)]
    assert judgments.equals(
        judgment_table([*labels, ("none", "1", None, 0), ("null", "1", None, 0)])
    )
    assert groups == {"q": (("a", "b"), ("c",)), "none": (("",),), "null": ()}
    run = read_run_file(run_file(tmp_path, '{"qid": "q", "retrieved_ids": ["x", "b"]}'))
    found = score(run, judgments, ["recall@5", "full_recall@5", "group_mrr@5"])
    assert found.means == {"recall@5": 0.5, "full_recall@5": 0.0, "group_mrr@5": 0.25}
    assert (found.n_queries, found.n_unanswerable) == (1, 2)


def test_judgments_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "judgments.jsonl"
    rows = [
        {"query_id": "q", "doc_id": "a", "evidence_id": "e1"},
        {"query_id": "q", "doc_id": "b", "evidence_id": "e1", "relevance": 2},
        {"query_id": "q", "doc_id": "c", "relevance": 0},
        {"query_id": "q", "doc_id": "d"},
    ]
    path.write_text(json_lines(rows), encoding="utf-8")
    judgments, groups = read_labels(path)
    assert groups == {"q": (("a", "b"), ("d",))}
    assert judgments["grade"].to_pylist() == [1, 2, 0, 1]
    found = score(
        read_run_file(run_file(tmp_path, '{"qid": "q", "retrieved_ids": ["b", "d"]}')),
        judgments,
        ["full_recall@2", "ndcg@2"],
    )
    assert found.means == {"full_recall@2": 1.0, "ndcg@2": 1.0}


def test_judgments_of_the_pipeline(tmp_path: Path) -> None:
    table = judgment_table([("q", "e1", "a", 1), ("q", "e1", "b", 1), ("q", "e2", None, 1)])
    path = tmp_path / "judgments.parquet"
    pq.write_table(table, path)
    judgments, groups = read_labels(path)
    assert judgments.equals(table)
    assert groups == {"q": (("a", "b"), ())}


RUNS = ("bm25_top10", "vectordb_top10", "hybrid_cc_top10", "tart_rerank_top5")


@pytest.mark.real_data
@pytest.mark.parametrize("name", RUNS)
def test_autorags_runs_score_what_autorag_recorded(
    shared_data: Callable[[str], Path], name: str
) -> None:
    folder = shared_data("autorag_sample")
    path = folder / "runs" / f"{name}.jsonl"
    recorded = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    run = read_run_rows(path, UNIT_COLUMNS, repeats=True)
    data = tool_input(run.hits, run.listed, read_labels(folder / "qa_data_sample.parquet"))
    assert (len(recorded), len(data.judged), data.strangers) == (10, 10, ())
    autorag = DIALECTS["autorag"]
    for measure in ("retrieval_f1", "retrieval_recall", "retrieval_precision"):
        outcome = autorag.outcome(data, autorag.parse(measure))
        for row in recorded:
            assert outcome.per_query[row["qid"]] == pytest.approx(row[measure], abs=1e-12)
    repeating = {query for query, _, _ in repetitions(data)}
    if name in {"bm25_top10", "vectordb_top10"}:
        assert len(repeating) == 10
        assert max(count for _, _, count in repetitions(data)) == 5
        with pytest.raises(DataError, match="occurs twice for query"):
            read_run_file(path)
    else:
        assert not repeating
        assert read_run_file(path).num_rows == sum(len(row["retrieved_ids"]) for row in recorded)
