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
    text = LINE + '\n{"query_id": "q2", "retrieved_ids": ["b", "a"]}\n'
    path = run_file(tmp_path, text)
    run = read_run_rows(path)
    assert run.rows == {
        "q1": [(1, "d3", 2.5), (1, "d1", 1.0)],
        "q2": [(3, "b", 1.0), (3, "a", 0.5)],
    }
    table = read_run_file(path)
    assert table["unit_id"].to_pylist() == ["d3", "d1", "b", "a"]
    assert table["rank"].to_pylist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": holds no queries"),
        ("[1]\n", ":1: found a list; each line must be one JSON object"),
        ('{"qid": "q"}', ":1: `retrieved_ids`: is missing; found keys: 'qid'"),
        ('{"qid": "q", "retrieved_ids": ["a", 1]}', ":1: `retrieved_ids`: must be a list of texts"),
        (
            '{"qid": "q", "retrieved_ids": ["a"], "retrieve_scores": []}',
            ":1: `retrieve_scores`: has 0 scores for 1 ids",
        ),
        (LINE + LINE, ":2: `qid`: query 'q1' is already on line 1"),
    ],
)
def test_broken_lists(tmp_path: Path, text: str, problem: str) -> None:
    path = run_file(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_run_file(path)
    assert str(caught.value).startswith(f"{path}{problem}")


def test_the_best_module_of_autorags_retrieve_node_line(tmp_path: Path) -> None:
    """``best_*.parquet`` has the questions beside the lists; ``0.parquet`` has lists alone."""
    lists = {"retrieved_ids": [["b", "a"], []], "retrieve_scores": [[2.0, 1.0], []]}
    rest = {"retrieved_contents": [["x", "y"], []], "retrieval_f1": [0.5, 0.0]}
    path = tmp_path / "best_0.parquet"
    pq.write_table(pa.table({"qid": ["q1", "q2"], "query": ["x", "y"], **lists, **rest}), path)
    assert read_run_rows(path).hits == {"q1": (("b", 2.0), ("a", 1.0)), "q2": ()}
    assert read_run_rows(path).listed
    pq.write_table(pa.table({**lists, **rest}), path)
    with pytest.raises(DataError, match="`qid`: is missing; found keys: 'retrieved_ids'"):
        read_run_rows(path)


def test_results_and_labels_of_pyterrier(tmp_path: Path) -> None:
    """Ranks from 0 say nothing that the scores do not."""
    run, labels = tmp_path / "run.parquet", tmp_path / "qrels.parquet"
    ranked = {"docno": ["b", "a"], "rank": [0, 1], "score": [2.0, 1.0]}
    pq.write_table(pa.table({"qid": ["q1", "q1"], "query": ["x", "x"], **ranked}), run)
    pq.write_table(pa.table({"qid": ["q1"], "docno": ["a"], "label": [1]}), labels)
    assert read_run_file(run)["document_id"].to_pylist() == ["b", "a"]
    assert read_labels(labels).groups == {"q1": (("a",),)}


def test_a_repeated_document_is_refused_with_its_query_and_how_often(tmp_path: Path) -> None:
    rows = [
        {"qid": "fine", "retrieved_ids": ["a"]},
        {"qid": "q1", "retrieved_ids": ["a", "b", "a", "b", "b"]},
        {"qid": "q2", "retrieved_ids": ["a", "a"]},
    ]
    path = run_file(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
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
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judgments, groups = read_labels(path)
    assert groups == {"q": (("a", "b"), ("d",))}
    assert judgments["grade"].to_pylist() == [1, 2, 0, 1]
    found = score(
        read_run_file(run_file(tmp_path, '{"qid": "q", "retrieved_ids": ["b", "d"]}')),
        judgments,
        ["full_recall@2", "ndcg@2"],
    )
    assert found.means == {"full_recall@2": 1.0, "ndcg@2": 1.0}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"doc_id": "a"}, "`query_id`: is missing; found keys: 'doc_id'"),
        (
            {"query_id": "q", "doc_id": ""},
            "`doc_id`: is ''; must be an id: a text of one line that is not empty, or an integer",
        ),
        (
            {"query_id": "q", "doc_id": "a", "relevance": 1.5},
            "`relevance`: is 1.5; must be a grade: an integer that fits 32 bits",
        ),
        (
            {"query_id": "q", "doc_id": "a", "quote": "..."},
            "`quote`: quotes need the documents, which are not read here; use `evaluate`",
        ),
    ],
)
def test_broken_judgments(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    path = tmp_path / "judgments.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_labels(path)
    assert str(caught.value) == f"{path}:1: {problem}"


def test_judgments_of_the_pipeline(tmp_path: Path) -> None:
    table = judgment_table([("q", "e1", "a", 1), ("q", "e1", "b", 1), ("q", "e2", None, 1)])
    path = tmp_path / "judgments.parquet"
    pq.write_table(table, path)
    judgments, groups = read_labels(path)
    assert judgments.equals(table)
    assert groups == {"q": (("a", "b"), ())}


def test_parquet_that_holds_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(DataError, match="needs qid and retrieval_gt, or query_id and unit_id"):
        read_labels(path)
    path.write_bytes(b"no parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_labels(path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_labels(tmp_path / "missing.parquet")


@pytest.mark.parametrize(
    ("queries", "truth", "problem"),
    [
        (["q", "q"], [[["a"]], [["b"]]], ":2: `qid`: query 'q' occurs twice"),
        (["q"], [["a"]], ":1: `retrieval_gt`: must be a list of lists of ids"),
    ],
)
def test_a_broken_table_of_autorag(
    tmp_path: Path, queries: list[str], truth: list[object], problem: str
) -> None:
    path = tmp_path / "qa.parquet"
    pq.write_table(pa.table({"qid": queries, "retrieval_gt": truth}), path)
    with pytest.raises(DataError, match=problem):
        read_labels(path)


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


def test_a_run_with_failures_is_not_scored_as_if_nothing_was_found(tmp_path: Path) -> None:
    path = run_file(tmp_path, LINE + '{"qid": "q2", "error": "timed out"}\n')
    assert read_run_rows(path).failures == {"q2": "timed out"}
    with pytest.raises(DataError, match=r"run.jsonl: `error`: marks query 'q2' as failed \(timed"):
        read_run_file(path)
