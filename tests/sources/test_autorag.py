from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.sources import open_dataset

GROUPS = pa.list_(pa.list_(pa.string()))


def lay_out(
    folder: Path, truth: list[Any], corpus: str = "corpus", qa: str = "qa", **more: Any
) -> Path:
    """Write documents d1 to d4 and one query for each ground truth."""
    ids = ["d1", "d2", "d3", "d4"]
    metadata = [
        {"page": 1, "at": datetime.datetime(2024, 1, 2, 3), "size": float("nan"), "tags": ["x"]},
        *[{"page": None}] * 3,
    ]
    documents = {"doc_id": ids, "contents": [f"text {i}" for i in ids], "metadata": metadata}
    pq.write_table(pa.table(documents), folder / f"{corpus}.parquet")
    numbers = [f"q{i}" for i in range(len(truth))]
    queries = {"qid": numbers, "query": numbers, "retrieval_gt": pa.array(truth, GROUPS), **more}
    pq.write_table(pa.table(queries), folder / f"{qa}.parquet")
    return folder


def test_groups_are_evidences_and_their_ids_alternatives(tmp_path: Path, read_all: Any) -> None:
    answers = [["yes", "yeah"], None]
    lay_out(tmp_path, [[["d1", "d2"], ["d3"]], [["d4"], ["d4"]]], generation_gt=answers)
    dataset = open_dataset(tmp_path)
    assert (dataset.format, dataset.default_judge, dataset.default_chunking) == (
        "autorag",
        "document",
        "none",
    )
    documents, queries, qrels = read_all(dataset)
    assert [tuple(row.values()) for row in qrels.table.to_pylist()] == [
        ("q0", "1", "d1", None, None, 1),
        ("q0", "1", "d2", None, None, 1),
        ("q0", "2", "d3", None, None, 1),
        ("q1", "1", "d4", None, None, 1),
        ("q1", "2", "d4", None, None, 1),
    ]
    assert queries.table.column("metadata").to_pylist() == [
        '{"generation_gt":["yes","yeah"]}',
        "{}",
    ]
    first, *others = documents.table.column("metadata").to_pylist()
    assert json.loads(first)["page"] == 1
    assert json.loads(first)["at"].startswith("2024-01-02T03")
    assert others == ["{}"] * 3
    assert documents.table.column("title").to_pylist() == [""] * 4


def test_no_ground_truth(tmp_path: Path, read_all: Any) -> None:
    lay_out(tmp_path, [[["d1"]], [[]], [[""]], [], None, [None], [[None]]])
    _, queries, qrels = read_all(open_dataset(tmp_path))
    assert queries.table.num_rows == 7
    assert qrels.table.num_rows == 1
    assert qrels.notes == ["6 queries without a relevant document: q1, q2, q3, q4, q5 and 1 more"]


def test_what_is_left_out_is_counted(tmp_path: Path, read_all: Any) -> None:
    lay_out(tmp_path, [[["d1"], []], [["d2", ""], ["d3"]], [["d1", "d2", "d1"]]])
    qrels = read_all(open_dataset(tmp_path))[2]
    rows = [tuple(row.values())[:3] for row in qrels.table.to_pylist()]
    assert rows == [
        ("q0", "1", "d1"),
        ("q1", "1", "d2"),
        ("q1", "2", "d3"),
        ("q2", "1", "d1"),
        ("q2", "1", "d2"),
    ]
    assert qrels.notes == [
        "2 queries have empty entries beside the ground truth, left out: q0, q1",
        "1 query has an id twice in one group, taken once: q2",
    ]


def test_several_files(tmp_path: Path) -> None:
    lay_out(tmp_path, [[["d1"]]], qa="my_qa_b")
    lay_out(tmp_path, [[["d1"]]], qa="qa_a")
    with pytest.raises(DataError) as caught:
        open_dataset(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: more than one file may be qa.parquet: my_qa_b.parquet, qa_a.parquet; choose "
        "with subset: my_qa_b"
    )
    assert open_dataset(tmp_path, subset="qa_a").query_files() == [tmp_path / "qa_a.parquet"]
    with pytest.raises(UsageError, match="no subset 'x'; allowed: my_qa_b, qa_a"):
        open_dataset(tmp_path, subset="x")
    lay_out(tmp_path, [[["d1"]]], qa="qa")
    assert open_dataset(tmp_path).query_files() == [tmp_path / "qa.parquet"]
    lay_out(tmp_path, [[["d1"]]], corpus="a_corpus")
    assert open_dataset(tmp_path).document_files() == [tmp_path / "corpus.parquet"]
    (tmp_path / "corpus.parquet").rename(tmp_path / "b_corpus.parquet")
    with pytest.raises(DataError) as caught:
        open_dataset(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: more than one file may be corpus.parquet: a_corpus.parquet, "
        "b_corpus.parquet; keep one"
    )


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "subset", "rows"),
    [
        (".", "qa_data_sample", (30, 10, 10)),
        (".", "qa_test_data_sample", (30, 2, 2)),
        ("dataset_sample_gen_by_autorag", None, (55, 20, 20)),
    ],
)
def test_samples(
    shared_data: Any, read_all: Any, name: str, subset: str | None, rows: tuple[int, int, int]
) -> None:
    tables = read_all(open_dataset(shared_data("autorag_sample") / name, subset=subset))
    assert tuple(read.table.num_rows for read in tables) == rows
    assert [read.notes for read in tables] == [[], [], []]
    assert all("generation_gt" in text for text in tables[1].table.column("metadata").to_pylist())


@pytest.mark.real_data
def test_sample_with_two_sets_of_questions(shared_data: Any) -> None:
    with pytest.raises(DataError, match=r"qa_data_sample\.parquet, qa_test_data_sample\.parquet"):
        open_dataset(shared_data("autorag_sample"))
