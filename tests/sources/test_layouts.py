"""Layouts as people have them: each read as it is, and refused with its line when it is broken."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

import pytest

from rag_assets import input_files
from rag_assets.errors import DataError, UsageError
from rag_assets.schemas import column_values
from rag_assets.sources import Read, open_dataset
from rag_assets.sources.formats import with_columns
from tests.sources.files import Files, ReadAll, Write, json_lines, parquet

CORPUS = (
    '{"_id": "d1", "title": "Fares", "text": "A dog needs a ticket."}\n'
    '{"_id": "d2", "title": "Storms", "text": "The harbour closes."}\n'
)
QUERIES = '{"_id": "q1", "text": "what does a dog pay"}\n{"_id": "q2", "text": "when is it shut"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n"
BEIR = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}
MARCO = {
    "collection.tsv": "d1\tA dog needs a ticket.\nd2\tThe harbour closes.\n",
    "queries.dev.small.tsv": "q1\twhat does a dog pay\nq2\twhen is it shut\n",
    "qrels.dev.small.tsv": "q1\t0\td1\t2\nq2\t0\td2\t1\n",
}
JUDGED = [("q1", "d1", 2), ("q2", "d2", 1)]


DOCUMENTS = [
    parquet({"_id": ["d1"], "title": ["Fares"], "text": ["A dog needs a ticket."]}),
    parquet({"_id": ["d2"], "title": ["Storms"], "text": ["The harbour closes."]}),
]
ASKED = parquet({"_id": ["q1", "q2"], "text": ["what does a dog pay", "when is it shut"]})


def graded(queries: list[str], documents: list[str], scores: list[float]) -> bytes:
    return parquet({"query-id": queries, "corpus-id": documents, "score": scores})


GRADED = graded(["q1", "q2"], ["d1", "d2"], [2.0, 1.0])
SHARDS: Files = {
    "corpus/corpus-00000-of-00002.parquet": DOCUMENTS[0],
    "corpus/corpus-00001-of-00002.parquet": DOCUMENTS[1],
    "queries/queries-00000-of-00001.parquet": ASKED,
}
FLAT: Files = {
    "corpus.parquet": parquet({"_id": ["d1", "d2"], "text": ["A dog.", "A harbour."]}),
    "queries.parquet": ASKED,
    "qrels.parquet": GRADED,
}


def packed(files: Mapping[str, str]) -> Files:
    return {f"{name}.gz": gzip.compress(text.encode()) for name, text in files.items()}


def judged(read: Read) -> list[tuple[str, str, int]]:
    return [*column_values(read.table, "query_id", "document_id", "grade")]


def qrels_lines(score: str) -> str:
    rows = [{"query-id": q, "corpus-id": d, "score": g} for q, d, g in JUDGED]
    return json_lines(rows).replace(": 2}", f": {score}}}")


LAYOUTS: dict[str, tuple[str, Files]] = {
    "BEIR .gz": ("beir", packed(BEIR)),
    "BEIR with four columns": (
        "beir",
        {**BEIR, "qrels/test.tsv": "query-id\titer\tcorpus-id\tscore\nq1 0 d1 2\nq2\t0\td2\t1\n"},
    ),
    "BEIR with qrels as JSON lines": (
        "beir",
        {**BEIR, "qrels/test.tsv": None, "qrels/test.jsonl": qrels_lines("2.0")},
    ),
    "BEIR with flat qrels": ("beir", {**BEIR, "qrels/test.tsv": None, "qrels.tsv": QRELS}),
    "Parquet, qrels/": ("beir", {**SHARDS, "qrels/test-00000-of-00001.parquet": GRADED}),
    "Parquet, data/": ("beir", {**SHARDS, "data/test-00000-of-00001.parquet": GRADED}),
    "Parquet, three files": ("beir", FLAT),
    "MS MARCO": ("trec", MARCO),
    "CACM": ("trec", {**MARCO, "qrels.dev.small.tsv": "q1 d1  0 0\nq2 d2  0 0\n"}),
    "MIRACL": (
        "trec",
        {
            "docs/docs-0.jsonl.gz": gzip.compress(CORPUS.replace("_id", "docid").encode()),
            "topics.miracl-v1.0-en-dev.tsv": MARCO["queries.dev.small.tsv"],
            "qrels.miracl-v1.0-en-dev.tsv": "q1\tQ0\td1\t2\nq2\tQ0\td2\t1\n",
        },
    ),
    "PyTerrier": (
        "csv",
        {
            "documents.csv": "docno,text\nd1,A dog needs a ticket.\nd2,The harbour closes.\n",
            "queries.csv": "qid,query\nq1,what does a dog pay\nq2,when is it shut\n",
            "judgments.csv": "qid,docno,label\nq1,d1,2\nq2,d2,1\n",
        },
    ),
    "spreadsheet programs": (
        "csv",
        {
            "documents.csv": 'id;text\nd1;A dog, too, pays.\nd2;"It closes; late."\n',
            "queries.csv": "qid\ttext\nq1\twhat does a dog pay\nq2\twhen is it shut\n",
            "judgments.csv": "qid;docno;label\nq1;d1;2\nq2;d2;1\n",
        },
    ),
    "PyTerrier with topics": (
        "trec",
        {
            "collection.tsv": MARCO["collection.tsv"],
            "topics.tsv": "qid\tquery\n" + MARCO["queries.dev.small.tsv"],
            "qrels.tsv": "qid\tdocno\tlabel\nq1\td1\t2\nq2\td2\t1\n",
        },
    ),
    "qrels of trec_eval 10": (
        "trec",
        {**MARCO, "qrels.dev.small.tsv": "# judged in 2024\nq1 0 d1 2\n#q1 0 d2 1\nq2 0 d2 1\n"},
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_read_as_it_is(write: Write, read_all: ReadAll, name: str) -> None:
    form, files = LAYOUTS[name]
    dataset = open_dataset(write(files))
    documents, queries, qrels = read_all(dataset)
    assert dataset.format == form
    assert dataset.has_qrels
    assert documents.table.column("document_id").to_pylist() == ["d1", "d2"]
    assert queries.table.column("text").to_pylist() == ["what does a dog pay", "when is it shut"]
    assert judged(qrels) == ([(q, d, 1) for q, d, _ in JUDGED] if name == "CACM" else JUDGED)
    assert all(len(read.notes) == 0 for read in (documents, queries, qrels))
    listed = (dataset.document_files(), dataset.query_files(), dataset.qrels_files())
    assert all(file.is_file() for files_ in listed for file in files_)


SECOND = "corpus/corpus-00001-of-00002.parquet"
REFUSALS: dict[str, tuple[Files, str]] = {
    "plain and .gz": (
        {**BEIR, **packed(BEIR)},
        "/corpus.jsonl.gz: corpus.jsonl exists too; keep one of them",
    ),
    "qrels twice": (
        {**BEIR, "qrels/test.jsonl": qrels_lines("2")},
        "/qrels/test.tsv: test.jsonl exists too; keep one of them",
    ),
    "a shard that is missing": (
        {**SHARDS, "qrels/test.parquet": GRADED, SECOND: None},
        "/corpus/corpus-00000-of-00002.parquet: is one of 2 shards; only 1 are there",
    ),
    "an id in two shards": (
        {**SHARDS, "qrels/test.parquet": GRADED, SECOND: DOCUMENTS[0]},
        "/corpus/corpus-00001-of-00002.parquet:1: `_id`: document id 'd1' occurs twice, first on "
        "line 1 of corpus-00000-of-00002.parquet",
    ),
    "Parquet without qrels": (
        {**FLAT, "qrels.parquet": None},
        ": a folder of no known format; nearest: a folder with corpus.jsonl, "
        "queries.jsonl and qrels/ (beir), where there is no qrels/",
    ),
}


@pytest.mark.parametrize(("files", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_broken_layout_is_refused_with_its_line(
    write: Write, read_all: ReadAll, files: Files, message: str
) -> None:
    folder = write(files)
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(folder))
    assert str(caught.value) == f"{folder}{message}"


def test_subsets_of_parquet(write: Write, read_all: ReadAll) -> None:
    names = {"q1": "qrels/test.parquet", "q2": "qrels/train.parquet"}
    subsets = {name: graded([query], ["d1"], [1]) for query, name in names.items()}
    folder = write({**SHARDS, **subsets})
    read = read_all(open_dataset(folder))
    assert read[1].notes == ["1 query that is not of subset test is left out: q2"]
    assert judged(read_all(open_dataset(folder, subset="train"))[2]) == [("q2", "d1", 1)]


def test_a_subset_of_ms_marco(write: Write, read_all: ReadAll) -> None:
    more = {"queries.train.tsv": "q3\twhy\n", "qrels.train.tsv": "q3\t0\td2\t1\n"}
    folder = write({**MARCO, **more})
    assert judged(read_all(open_dataset(folder, subset="train"))[2]) == [("q3", "d2", 1)]
    assert judged(read_all(open_dataset(folder, subset="dev.small"))[2]) == JUDGED


def test_bombs_are_not_unpacked(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "FREE_BYTES", 100_000)
    bomb = b'{"_id": "d", "text": "' + b"a" * 2_000_000 + b'"}\n'
    rule = "100,000 or 200 times the size of the file are allowed; if you trust it, unpack"
    folder = write({**BEIR, "corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(bomb)})
    with pytest.raises(DataError, match=rf"corpus\.jsonl\.gz: unpacks to more than .*; {rule}"):
        open_dataset(folder).read_documents()


def test_every_text_file_of_a_folder_may_be_compressed(write: Write, read_all: ReadAll) -> None:
    files = {
        "guides/fares.md": "# Fares\nA dog needs a ticket.",
        "storm.txt": "The harbour closes.",
        "queries.csv": "query_id,text\nq1,dog\n",
        "judgments.csv": "query_id,doc_id,quote,relevance\nq1,guides/fares.md,a ticket,2.0\n",
    }
    folder = write(packed(files))
    documents, queries, qrels = read_all(open_dataset(folder))
    assert documents.table.column("document_id").to_pylist() == ["guides/fares.md", "storm.txt"]
    assert documents.table.column("title").to_pylist() == ["Fares", ""]
    assert queries.table.num_rows == 1
    assert judged(qrels) == [("q1", "guides/fares.md", 2)]
    assert open_dataset(folder).default_judge == "evidence"
    write({"storm.txt": "The harbour closes."})
    with pytest.raises(DataError, match=r"storm\.txt\.gz: storm\.txt exists too; keep one"):
        open_dataset(folder).read_documents()


PER_SOURCE = {
    "documents.csv": (
        "source,cont_id,content\nguide.pdf,1,A dog.\nguide.pdf,2,A cat.\nweb/faq,1,A harbour.\n"
    ),
    "queries.csv": "query_id,text\nq1,dog\n",
    "judgments.csv": "query_id,doc_id\nq1,web/faq/1\n",
}
ID_PARTS = {"document_id": ["source", "cont_id"], "text": "content"}


def test_ids_that_repeat_per_source(write: Write, read_all: ReadAll) -> None:
    dataset = with_columns(open_dataset(write(PER_SOURCE)), ID_PARTS)
    documents, _, qrels = read_all(dataset)
    ids = ["guide.pdf/1", "guide.pdf/2", "web/faq/1"]
    assert documents.table.column("document_id").to_pylist() == ids
    assert documents.table.column("metadata").to_pylist()[2] == '{"cont_id":"1","source":"web/faq"}'
    assert judged(qrels) == [("q1", "web/faq/1", 1)]
    write({"judgments.csv": "query_id,source,cont_id\nq1,guide.pdf,2\n"})
    assert judged(read_all(dataset)[2]) == [("q1", "guide.pdf/2", 1)]


AGAIN = PER_SOURCE["documents.csv"] + "guide.pdf,1,Again.\n"


@pytest.mark.parametrize(
    ("columns", "documents", "problem"),
    [
        (
            {**ID_PARTS, "document_id": "cont_id"},
            PER_SOURCE["documents.csv"],
            r"csv:4: `cont_id`: document id '1' occurs twice, first on",
        ),
        ({"text": ["a", "b"]}, "", "`text` must be one name; a list is for document_id"),
        ({"document_id": []}, "", "`document_id` must be a list of different names"),
        (
            {"document_id": ["source", "page"]},
            PER_SOURCE["documents.csv"],
            r"documents\.csv:2: no 'page' for document_id; found: 'so",
        ),
        (
            *(ID_PARTS, AGAIN),
            r"csv:5: `source, cont_id`: document id 'guide\.pdf/1' occurs twice, first on line 2",
        ),
        (
            *(ID_PARTS, "source,cont_id,content\n,1,A dog.\n"),
            r"documents\.csv:2: `source`: is ''; must be an id",
        ),
    ],
)
def test_ids_of_several_columns_that_are_wrong(
    write: Write, columns: dict[str, Any], documents: str, problem: str
) -> None:
    dataset = open_dataset(write({**PER_SOURCE, "documents.csv": documents}))
    with pytest.raises(DataError if documents else UsageError, match=problem):
        with_columns(dataset, columns).read_documents()
