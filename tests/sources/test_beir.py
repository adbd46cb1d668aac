from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES
from rag_assets.sources import open_dataset
from tests.sources.files import ReadAll, Write

CORPUS = (
    '{"_id": "d1", "title": "T", "text": "alpha", "metadata": {"url": "u"}, "lang": "en"}\n'
    '{"_id": 2, "text": "beta"}\n'
    "\n"
    '{"_id": "d 3", "title": null, "text": "", "metadata": null}\n'
)
QUERIES_TEXT = (
    '{"_id": "q1", "text": "one", "metadata": {"tags": ["a", "b"], "x": 1}}\r\n'
    '{"_id": 7, "text": "two", "metadata": "free"}\r\n'
)
FILES: dict[str, str | bytes] = {
    "corpus.jsonl": b"\xef\xbb\xbf" + CORPUS.encode(),
    "queries.jsonl": QUERIES_TEXT,
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\r\nq1\td1\t2\r\nq1  2   -1.0\r\n7\td 3\t0\r\n",
}


def test_tables_of_a_folder(write: Write, read_all: ReadAll) -> None:
    documents, queries, qrels = read_all(open_dataset(write(FILES)))
    assert documents.table.schema.equals(DOCUMENTS.arrow())
    assert queries.table.schema.equals(QUERIES.arrow())
    assert qrels.table.schema.equals(QRELS.arrow())
    assert documents.table.to_pydict() == {
        "document_id": ["d1", "2", "d 3"],
        "title": ["T", "", ""],
        "text": ["alpha", "beta", ""],
        "metadata": ['{"lang":"en","url":"u"}', "{}", "{}"],
    }
    assert queries.table.to_pydict() == {
        "query_id": ["q1", "7"],
        "text": ["one", "two"],
        "tags": [["a", "b"], []],
        "metadata": ['{"x":1}', '{"metadata":"free"}'],
    }
    assert qrels.table.to_pydict() == {
        "query_id": ["q1", "q1", "7"],
        "evidence_id": ["d1", "2", "d 3"],
        "document_id": ["d1", "2", "d 3"],
        "start": [None, None, None],
        "end": [None, None, None],
        "grade": [2, -1, 0],
    }
    assert documents.notes == ["1 empty document: d 3"]
    assert queries.notes == []
    assert qrels.notes == ["1 query without a relevant document: 7"]


def test_metadata_whose_name_clashes_stays_whole(write: Write) -> None:
    corpus = '{"_id": "d", "text": "t", "url": 1, "metadata": {"url": 2}}\n'
    dataset = open_dataset(write({**FILES, "corpus.jsonl": corpus}))
    table = dataset.read_documents().table
    assert table.column("metadata").to_pylist() == ['{"metadata":{"url":2},"url":1}']


def test_queries_of_another_subset_are_left_out_and_counted(write: Write) -> None:
    queries = "".join(f'{{"_id": "q{i}", "text": "t"}}\n' for i in range(5))
    folder = write(
        {
            **FILES,
            "queries.jsonl": queries,
            "qrels/test.tsv": "q0 d1 1\nq1 d1 0\n",
            "qrels/train.tsv": "q1 d1 1\nq2 d1 1\nq3 d1 0\n",
        }
    )
    test, train = open_dataset(folder), open_dataset(folder, subset="train")
    read = test.read_queries()
    assert read.table.column("query_id").to_pylist() == ["q0", "q1", "q3", "q4"]
    assert read.notes == ["1 query that is not of subset test is left out: q2"]
    assert train.read_queries().table.column("query_id").to_pylist() == ["q1", "q2", "q3", "q4"]
    assert [f.name for f in test.query_files()] == ["queries.jsonl", "test.tsv", "train.tsv"]
    assert [f.name for f in test.qrels_files()] == ["test.tsv"]


def test_the_only_subset_is_the_default(write: Write, read_all: ReadAll) -> None:
    files = {k: v for k, v in FILES.items() if "qrels" not in k}
    dataset = open_dataset(write({**files, "qrels/dev.tsv": "q1 d1 1\n"}))
    assert read_all(dataset)[2].table.num_rows == 1
    assert [f.name for f in dataset.query_files()] == ["queries.jsonl"]


def test_subset_must_be_chosen_among_several(write: Write) -> None:
    files = {k: v for k, v in FILES.items() if "qrels" not in k}
    folder = write({**files, "qrels/dev.tsv": "q1 d1 1\n", "qrels/train.tsv": "q1 d1 1\n"})
    with pytest.raises(DataError, match=r"has no test\.tsv; choose a subset: dev, train$"):
        open_dataset(folder)
    with pytest.raises(UsageError, match=r"no subset 'trian' \(did you mean 'train'\?\); allo"):
        open_dataset(folder, subset="trian")


def test_many_batches_give_one_table(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assets.sources.tables.BATCH_ROWS", 7)
    corpus = "".join(f'{{"_id": {i}, "text": "t{i}"}}\n' for i in range(100))
    table = open_dataset(write({**FILES, "corpus.jsonl": corpus})).read_documents().table
    assert table.column("text").to_pylist() == [f"t{i}" for i in range(100)]


SharedData = Callable[[str], Path]


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "rows"), [("doc_qa_test", (433, 321, 321)), ("pg_eval_dataset", (57, 114, 114))]
)
def test_row_counts(
    shared_data: SharedData, read_all: ReadAll, name: str, rows: tuple[int, int, int]
) -> None:
    tables = read_all(open_dataset(shared_data("seed_doc_qa") / f"{name}.json"))
    assert tuple(read.table.num_rows for read in tables) == rows


@pytest.mark.real_data
def test_cranfield_and_its_codes_as_a_subset(shared_data: SharedData, read_all: ReadAll) -> None:
    documents, queries, qrels = read_all(open_dataset(shared_data("cranfield")))
    assert [read.table.num_rows for read in (documents, queries, qrels)] == [1400, 225, 1837]
    assert documents.notes[-1] == "2 empty documents: 471, 995"
    assert queries.notes == []
    assert pc.sum(pc.greater(qrels.table.column("grade"), 0)).as_py() == 1612
    assert queries.table.column("metadata")[3].as_py() == '{"original_id":"008"}'
    codes = open_dataset(shared_data("cranfield"), subset="test_code")
    grades = codes.read_qrels(documents.table, codes.read_queries().table).table["grade"]
    assert Counter(grades.to_pylist()) == {-1: 225, 1: 128, 2: 387, 3: 734, 4: 363}
