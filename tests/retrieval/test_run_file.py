from __future__ import annotations

import gzip
import json
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
from tests.made_tables import scored_table
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


def test_a_run_that_was_exported_has_the_metrics_of_its_retriever(bm25_only: Tiny) -> None:
    bm25_only.run()
    pipeline = bm25_only.pipeline()
    run = pipeline.artifact(run_key(pipeline.experiment, "bm25", 50)).table()
    for name in NAMES:
        write_run(run, bm25_only.folder / name, tag="t", failures={})
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
            assert found.equals(known), name


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


REFUSED: dict[str, tuple[str | dict[str, list[Any]], str]] = {
    "no query": ("x 0 a#0 1 3 t\n", "r.trec: has none of the experiment's 2 queries"),
    "error and list": (
        '{"query_id": "q1", "retrieved_ids": ["a#0"], "error": "x"}',
        "r.jsonl:1: `error`: cannot be given together with `retrieved_ids`",
    ),
    "error of no text": ('{"query_id": "q1", "error": 5}', "r.jsonl:1: `error`: must"),
    "texts": (
        '{"query_id": "q1", "hits": [{"text": "t"}]}',
        "r.jsonl:1: `hits`: are texts or spans, which need a retriever with `chunking: own`",
    ),
    "no hits": (
        '{"query_id": "q1", "retrieved_ids": ["a"]}',
        "own.jsonl:1: has none of hits, retrieved_contexts",
    ),
    "a hit of another form": (
        '{"query_id": "q1", "hits": [{"id": 3.5}]}',
        "own.jsonl:1: `hits`: hit 1: `id` is 3.5",
    ),
    "no order": (
        {"query_id": ["q1"], "doc_id": ["a#0"]},
        "r.parquet: has the columns query_id, doc_id; ne",
    ),
    "ids of numbers": (
        {"query_id": ["q1"], "chunk_id": [1.5], "rank": [1]},
        "r.parquet:1: `chunk_id`: is 1.5; must be an id: "
        "a text of one line that is not empty, or an integer",
    ),
    "null": (
        {"query_id": ["q1", None], "chunk_id": ["a#0", "a#5"], "rank": [1, 2]},
        "r.parquet:2: `query_id`: is null; must be an id: "
        "a text of one line that is not empty, or an integer",
    ),
}


OWN = {"own.jsonl": "own"}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    content, problem = REFUSED[case]
    file = tmp_path / problem.partition(":")[0]
    if isinstance(content, str):
        file.write_text(content, encoding="utf-8")
    else:
        pq.write_table(pa.table(content), file)
    retriever = RunFileRetriever(type="run_file", path=file, chunking=OWN.get(file.name))
    with pytest.raises(DataError) as caught:
        retriever.read(queries("q1", "q2"))
    assert str(caught.value).startswith(f"{tmp_path}/{problem}")
    assert "\n" not in str(caught.value)


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
    def make(item: str) -> pa.Table:
        return scored_table({"q1": {item: 0.1 + 0.2}})

    with pytest.raises(DataError, match=r"unit_id 'my file': TREC separates fields by white space"):
        write_run(make("my file"), tmp_path / "r.trec", tag="t", failures={})
    zipped = tmp_path / "r.trec.gz"
    notes = write_run(make("x"), zipped, tag="t", failures={"q2": "late"})
    assert gzip.decompress(zipped.read_bytes()) == b"q1 Q0 x 1 0.30000000000000004 t\n"
    assert notes == ["1 failed queries are left out; .jsonl holds them"]
    write_run(make("x"), tmp_path / "r.jsonl", tag="t", failures={"q2": "late"})
    text = (tmp_path / "r.jsonl").read_text(encoding="utf-8")
    assert text.splitlines()[1:] == ['{"query_id": "q2", "error": "late"}']
