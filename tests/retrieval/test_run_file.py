from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.evaluation.run_files import write_run
from rag_assets.retrieval.external.units import located, unit_run
from rag_assets.retrieval.run_file import RunFileRetriever
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import CHUNKS, DOCUMENTS, EXTERNAL_RANKINGS, QUERIES
from tests.tiny_experiment import Tiny

NAMES = ("run.trec", "run.trec.gz", "run.jsonl", "run.jsonl.gz", "run.parquet")


def queries(*names: str) -> pa.Table:
    return QUERIES.from_rows(
        [{"query_id": q, "text": q, "tags": [], "metadata": "{}"} for q in names]
    )


def chunk(chunk_id: str, document: str, start: int, parent: str | None = None) -> dict[str, object]:
    empty = {"title": "", "text": "", "heading_path": ""}
    span = {"parent_start": 0, "parent_end": 9} if parent else {}
    row = {"chunk_id": chunk_id, "document_id": document, "start": start, "end": start + 1}
    return {**empty, **row, "parent_chunk_id": parent, **span}


CUT = CHUNKS.from_rows([chunk("a#0", "a", 0), chunk("a#5", "a", 5), chunk("b#0", "b", 0)])
NESTED = CHUNKS.from_rows([chunk("a#0", "a", 0, "A"), chunk("a#5", "a", 5, "A")])


def read(
    tmp_path: Path, text: str, chunks: pa.Table, judge: str, name: str = "run.trec"
) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return rows_of(tmp_path / name, chunks, judge)


CORPUS = DOCUMENTS.from_rows(
    [{"document_id": name, "title": "", "text": "", "metadata": "{}"} for name in ("a", "b")]
)


def rows_of(
    file: Path, chunks: pa.Table = CUT, judge: str = "evidence"
) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """Return the ranking of a file, and why queries failed."""
    results = RunFileRetriever(type="run_file", path=file).read(queries("q1", "q2"))
    rows: list[dict[str, object]] = [
        {"query_id": query, "rank": rank, **hit._asdict()}
        for query, result in sorted(results.items())
        for rank, hit in enumerate(result.hits, 1)
    ]
    rankings = EXTERNAL_RANKINGS.from_rows(rows)
    hits, failures = located(rankings, CORPUS, chunks, judge=judge, has_own=False)
    columns = ("query_id", "rank", "score", "unit_id", "chunk_id", "document_id")
    ranked = unit_run(hits, judge).to_pylist()
    errors = {query: result.error for query, result in results.items() if result.error}
    return [tuple(row[name] for name in columns) for row in ranked], {**errors, **failures}


def export(tiny: Tiny, name: str, retriever: str = "bm25", top_k: int = 50) -> Path:
    pipeline = tiny.pipeline()
    run = pipeline.artifact(run_key(pipeline.experiment, retriever, top_k))
    write_run(run.table(), tiny.folder / name, tag="t", failures=run.manifest.failures)
    return tiny.folder / name


@pytest.mark.parametrize("judge", ["evidence", "document"])
def test_a_run_that_was_exported_has_the_metrics_of_its_retriever(
    bm25_only: Tiny, judge: str
) -> None:
    bm25_only.config["dataset"]["judge"] = judge
    bm25_only.write_config()
    bm25_only.run()
    for name in NAMES:
        export(bm25_only, name)
        bm25_only.configure(name, type="run_file", path=name, chunking="parts")
    bm25_only.run()
    pipeline = bm25_only.pipeline()
    for top_k in (1, 3, 50):
        expected = pipeline.artifact(metrics_key("bm25", top_k)).table()
        assert expected.num_rows == 6
        for name in NAMES:
            found = pipeline.artifact(metrics_key(name, top_k)).table()
            # What lies below the last rank of a file, and may be tied with it, is not known.
            found, known = (one.drop_columns("ties_at_cut") for one in (found, expected))
            if judge == "document" and name != "run.parquet":
                # Documents stand in the file, not their best chunks, whose tokens are counted.
                numbers = ["query_id", "hit_rate", "mrr", "ndcg", "n_retrieved"]
                assert found.select(numbers).equals(known.select(numbers)), name
            else:
                assert found.equals(known), name


def test_chunks_collapse_to_the_judged_document(tmp_path: Path) -> None:
    text = "q1 0 a#0 1 3 t\nq1 0 b#0 2 3 t\nq1 0 a#5 3 2 t\n"
    rows, _ = read(tmp_path, text, CUT, "document")
    # Equal scores: by the id, descending, whatever the order of the file.
    assert rows == [("q1", 1, 3.0, "b", "b#0", "b"), ("q1", 2, 3.0, "a", "a#0", "a")]


def test_ids_of_documents_and_of_parents(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, "q1 0 a 1 3 t\n", CUT, "document")
    assert rows == [("q1", 1, 3.0, "a", "a#0", "a")]
    rows, _ = read(tmp_path, "q1 0 A 1 3 t\nq1 0 a#5 2 4 t\n", NESTED, "evidence")
    assert rows == [("q1", 1, 4.0, "A", "a#5", "a")]
    _, failures = read(tmp_path, "q1 0 a 1 3 t\n", CUT, "evidence")
    assert failures == {"q1": "the search returned the id 'a', which no chunk or parent has"}


def test_the_order_of_a_list_is_the_ranking_and_a_unit_keeps_its_best_rank(tmp_path: Path) -> None:
    text = json.dumps({"query_id": "q1", "retrieved_ids": ["a#5", "b#0", "a#0"]})
    rows, _ = read(tmp_path, text, CUT, "document", "run.jsonl")
    assert [(row[1], row[2], row[4]) for row in rows] == [(1, 1.0, "a#5"), (2, 0.5, "b#0")]


def test_failed_queries_and_strangers(tmp_path: Path) -> None:
    lines = [
        {"query_id": "q1", "retrieved_ids": ["b#0"]},
        {"query_id": "q2", "error": "timed  out"},
        {"query_id": "q9", "error": "timed out"},
        {"query_id": "q8", "retrieved_ids": ["nowhere"]},
    ]
    text = "\n".join(map(json.dumps, lines))
    rows, failures = read(tmp_path, text, CUT, "evidence", "run.jsonl")
    assert len(rows) == 1
    assert failures == {"q2": "timed out"}


def test_an_unknown_id_is_refused_with_its_file_and_query(bm25_only: Tiny) -> None:
    (bm25_only.folder / "run.trec").write_text("q1 0 x 1 3 t\n", encoding="utf-8")
    bm25_only.configure("file", type="run_file", path="run.trec", chunking="parts")
    with pytest.raises(DataError, match=r"run.trec: query 'q1': .* id 'x', which no chunk or "):
        bm25_only.run()


def test_failures_reach_the_metrics(bm25_only: Tiny) -> None:
    bm25_only.run()
    file = export(bm25_only, "run.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows[0] = {"query_id": rows[0]["query_id"], "error": "timed out"}
    bm25_only.write_rows("run.jsonl", rows)
    bm25_only.configure("file", type="run_file", path="run.jsonl", chunking="parts")
    bm25_only.run()
    table = bm25_only.pipeline().artifact(metrics_key("file", 3)).table()
    failed = [row["query_id"] for row in table.to_pylist() if row["failed"]]
    assert failed == ["q1"]
    assert not bm25_only.snapshot().complete
    copy = export(bm25_only, "copy.jsonl", "file")
    assert '{"query_id": "q1", "error": "timed out"}' in copy.read_text(encoding="utf-8")


REFUSED: dict[str, tuple[str, str, str]] = {
    "no query": ("r.trec", "x 0 a#0 1 3 t\n", "r.trec: has none of the experiment's 2 queries"),
    "error and list": (
        "r.jsonl",
        '{"query_id": "q1", "retrieved_ids": ["a#0"], "error": "x"}',
        "r.jsonl:1: `error`: cannot be given together with `retrieved_ids`",
    ),
    "error of no text": ("r.jsonl", '{"query_id": "q1", "error": 5}', "r.jsonl:1: `error`: must"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    name, text, problem = REFUSED[case]
    with pytest.raises(DataError) as caught:
        read(tmp_path, text, CUT, "evidence", name)
    assert str(caught.value).startswith(f"{tmp_path}/{problem}")
    assert "\n" not in str(caught.value)


TABLES: dict[str, tuple[dict[str, list[Any]], str]] = {
    "no id": ({"query_id": ["q1"], "rank": [1]}, ": has the columns query_id, rank; needs"),
    "no order": ({"query_id": ["q1"], "doc_id": ["a#0"]}, ": has the columns query_id, doc_id; ne"),
    "ids of numbers": (
        {"query_id": ["q1"], "chunk_id": [1.5], "rank": [1]},
        ":1: `chunk_id`: is 1.5; must be an id: "
        "a text of one line that is not empty, or an integer",
    ),
    "null": (
        {"query_id": ["q1", None], "chunk_id": ["a#0", "a#5"], "rank": [1, 2]},
        ":2: `query_id`: is null; must be an id: "
        "a text of one line that is not empty, or an integer",
    ),
    "rank 0": (
        {"query_id": ["q1"], "chunk_id": ["a#0"], "rank": [0]},
        ":1: `rank`: must be an integer from 1",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_what_is_refused_in_parquet(tmp_path: Path, case: str) -> None:
    columns, problem = TABLES[case]
    file = tmp_path / "r.parquet"
    pq.write_table(pa.table(columns), file)
    with pytest.raises(DataError) as caught:
        rows_of(file)
    assert str(caught.value).startswith(f"{file}{problem}")


def test_parquet_by_rank_and_by_score(tmp_path: Path) -> None:
    file = tmp_path / "r.parquet"
    columns: dict[str, object] = {"query_id": ["q1"] * 2, "chunk_id": ["a#0", "b#0"]}
    for extra, expected in (
        ({"rank": [7, 3]}, [("b#0", 1 / 3), ("a#0", 1 / 7)]),
        ({"score": [1, 2]}, [("b#0", 2.0), ("a#0", 1.0)]),
        ({"score": [1, 2], "rank": [1, 2]}, [("a#0", 1.0), ("b#0", 0.5)]),
    ):
        pq.write_table(pa.table({**columns, **extra}), file)
        rows, _ = rows_of(file)
        assert [(row[4], row[2]) for row in rows] == expected


def test_trec_refuses_blanks_and_zipped_files_are_equal(tmp_path: Path) -> None:
    make: Callable[[str], pa.Table] = lambda item: pa.table(  # noqa: E731
        {
            "query_id": ["q1"],
            "rank": pa.array([1], pa.int32()),
            "score": [0.1 + 0.2],
            "unit_id": [item],
            "chunk_id": [item],
            "document_id": [item],
        }
    )
    with pytest.raises(DataError, match=r"unit_id 'my file': TREC separates fields by white space"):
        write_run(make("my file"), tmp_path / "r.trec", tag="t", failures={})
    zipped = tmp_path / "r.trec.gz"
    notes = write_run(make("x"), zipped, tag="t", failures={"q2": "late"})
    assert gzip.decompress(zipped.read_bytes()) == b"q1 Q0 x 1 0.30000000000000004 t\n"
    assert notes == ["1 failed queries are left out; .jsonl holds them"]
