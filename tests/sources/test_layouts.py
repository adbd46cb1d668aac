"""Layouts as people have them: each read as it is, and refused with its line when it is broken."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets import input_files
from rag_assets.errors import DataError, UsageError
from rag_assets.sources import Dataset, Read, open_dataset
from rag_assets.sources.formats import with_columns

Files = dict[str, str | bytes]
Write = Callable[[Mapping[str, str | bytes]], Path]
ReadAll = Callable[[Dataset], tuple[Read, Read, Read]]

CORPUS = (
    '{"_id": "d1", "title": "Fares", "text": "A dog needs a ticket."}\n'
    '{"_id": "d2", "title": "Storms", "text": "The harbour closes."}\n'
)
QUERIES = '{"_id": "q1", "text": "what does a dog pay"}\n{"_id": "q2", "text": "when is it shut"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n"
BEIR: Files = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}
MARCO: Files = {
    "collection.tsv": "d1\tA dog needs a ticket.\nd2\tThe harbour closes.\n",
    "queries.dev.small.tsv": "q1\twhat does a dog pay\nq2\twhen is it shut\n",
    "qrels.dev.small.tsv": "q1\t0\td1\t2\nq2\t0\td2\t1\n",
}
JUDGED = [("q1", "d1", 2), ("q2", "d2", 1)]


def parquet(**columns: list[Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({name.replace("_", "-"): v for name, v in columns.items()}), stream)
    return stream.getvalue()


def texts(ids: list[str], **columns: list[Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"_id": ids, **columns}), stream)
    return stream.getvalue()


DOCUMENTS = [
    texts(["d1"], title=["Fares"], text=["A dog needs a ticket."]),
    texts(["d2"], title=["Storms"], text=["The harbour closes."]),
]
ASKED = texts(["q1", "q2"], text=["what does a dog pay", "when is it shut"])
GRADED = parquet(query_id=["q1", "q2"], corpus_id=["d1", "d2"], score=[2.0, 1.0])
SHARDS: Files = {
    "corpus/corpus-00000-of-00002.parquet": DOCUMENTS[0],
    "corpus/corpus-00001-of-00002.parquet": DOCUMENTS[1],
    "queries/queries-00000-of-00001.parquet": ASKED,
}
FLAT: Files = {
    "corpus.parquet": texts(["d1", "d2"], text=["A dog.", "A harbour."]),
    "queries.parquet": ASKED,
    "qrels.parquet": GRADED,
}


def packed(files: Mapping[str, str | bytes]) -> Files:
    contents = {k: v.encode() if isinstance(v, str) else v for k, v in files.items()}
    return {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}


def judged(read: Read) -> list[tuple[str, str, int]]:
    rows = read.table.to_pylist()
    return [(row["query_id"], row["document_id"], row["grade"]) for row in rows]


def qrels_lines(score: str) -> str:
    return "".join(
        json.dumps({"query-id": q, "corpus-id": d, "score": g}) + "\n" for q, d, g in JUDGED
    ).replace(": 2}", f": {score}}}")


LAYOUTS: dict[str, tuple[Files, str]] = {
    "BEIR .gz": (packed(BEIR), "."),
    "BEIR with four columns": (
        {**BEIR, "qrels/test.tsv": "query-id\titer\tcorpus-id\tscore\nq1 0 d1 2\nq2\t0\td2\t1\n"},
        ".",
    ),
    "BEIR with qrels as JSON lines": (
        {**BEIR, "qrels/test.tsv": b"", "qrels/test.jsonl": qrels_lines("2.0")},
        ".",
    ),
    "BEIR with flat qrels": ({**BEIR, "qrels/test.tsv": b"", "qrels.tsv": QRELS}, "."),
    "Parquet, qrels/": ({**SHARDS, "qrels/test-00000-of-00001.parquet": GRADED}, "."),
    "Parquet, data/": ({**SHARDS, "data/test-00000-of-00001.parquet": GRADED}, "."),
    "Parquet, three files": (FLAT, "."),
    "MS MARCO": (MARCO, "."),
    "CACM": ({**MARCO, "qrels.dev.small.tsv": "q1 d1  0 0\nq2 d2  0 0\n"}, "."),
    "MIRACL": (
        {
            "docs/docs-0.jsonl.gz": gzip.compress(CORPUS.replace("_id", "docid").encode()),
            "topics.miracl-v1.0-en-dev.tsv": "q1\twhat does a dog pay\nq2\twhen is it shut\n",
            "qrels.miracl-v1.0-en-dev.tsv": "q1\tQ0\td1\t2\nq2\tQ0\td2\t1\n",
        },
        ".",
    ),
    "PyTerrier": (
        {
            "documents.csv": "docno,text\nd1,A dog needs a ticket.\nd2,The harbour closes.\n",
            "queries.csv": "qid,query\nq1,what does a dog pay\nq2,when is it shut\n",
            "judgments.csv": "qid,docno,label\nq1,d1,2\nq2,d2,1\n",
        },
        ".",
    ),
    "PyTerrier with topics": (
        {
            "collection.tsv": "d1\tA dog needs a ticket.\nd2\tThe harbour closes.\n",
            "topics.tsv": "qid\tquery\nq1\twhat does a dog pay\nq2\twhen is it shut\n",
            "qrels.tsv": "qid\tdocno\tlabel\nq1\td1\t2\nq2\td2\t1\n",
        },
        ".",
    ),
    "qrels of trec_eval 10": (
        {**MARCO, "qrels.dev.small.tsv": "# judged in 2024\nq1 0 d1 2\n#q1 0 d2 1\nq2 0 d2 1\n"},
        ".",
    ),
}
FORMATS = {
    **dict.fromkeys(("CACM", "MIRACL", "PyTerrier with topics"), "trec"),
    "PyTerrier": "csv",
    "MS MARCO": "trec",
    "MS MARCO .gz": "trec",
    "qrels of trec_eval 10": "trec",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_read_as_it_is(write: Write, read_all: ReadAll, name: str) -> None:
    files, place = LAYOUTS[name]
    folder = write({key: value for key, value in files.items() if value != b""})
    dataset = open_dataset(folder / place)
    documents, queries, qrels = read_all(dataset)
    assert dataset.format == FORMATS.get(name, "beir")
    assert dataset.has_qrels
    assert documents.table.column("document_id").to_pylist() == ["d1", "d2"]
    assert queries.table.column("text").to_pylist() == ["what does a dog pay", "when is it shut"]
    assert judged(qrels) == ([(q, d, 1) for q, d, _ in JUDGED] if name == "CACM" else JUDGED)
    assert all(len(read.notes) == 0 for read in (documents, queries, qrels))
    listed = (dataset.document_files(), dataset.query_files(), dataset.qrels_files())
    assert all(file.is_file() for files_ in listed for file in files_)


def with_file(base: Files, name: str, content: str | bytes | None) -> Files:
    files = {**base, name: content} if content is not None else {**base}
    if content is None:
        del files[name]
    return files


REFUSALS: dict[str, tuple[Files, str, str]] = {
    "plain and .gz": (
        {**BEIR, **packed(BEIR)},
        ".",
        "/corpus.jsonl.gz: corpus.jsonl exists too; keep one of them",
    ),
    "qrels twice": (
        {**BEIR, "qrels/test.jsonl": qrels_lines("2")},
        ".",
        "/qrels/test.tsv: test.jsonl exists too; keep one of them",
    ),
    "a shard that is missing": (
        with_file(
            {**SHARDS, "qrels/test.parquet": GRADED}, "corpus/corpus-00001-of-00002.parquet", None
        ),
        ".",
        ("/corpus/corpus-00000-of-00002.parquet: is one of 2 shards; only 1 are there"),
    ),
    "an id in two shards": (
        with_file(
            {**SHARDS, "qrels/test.parquet": GRADED},
            "corpus/corpus-00001-of-00002.parquet",
            DOCUMENTS[0],
        ),
        ".",
        "/corpus/corpus-00001-of-00002.parquet:1: `_id`: document id 'd1' occurs twice, first on "
        "line 1 of corpus-00000-of-00002.parquet",
    ),
    "Parquet without qrels": (
        with_file(FLAT, "qrels.parquet", None),
        ".",
        ": a folder of no known format; nearest: a folder with corpus.jsonl, "
        "queries.jsonl and qrels/ (beir), where there is no qrels/",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_broken_layout_is_refused_with_its_line(
    write: Write, read_all: ReadAll, name: str
) -> None:
    files, place, message = REFUSALS[name]
    folder = write(files)
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(folder / place))
    assert str(caught.value) == f"{folder}{message}"


def test_subsets_of_parquet(write: Write, read_all: ReadAll) -> None:
    train = parquet(query_id=["q2"], corpus_id=["d1"], score=[1])
    test = parquet(query_id=["q1"], corpus_id=["d1"], score=[1])
    folder = write({**SHARDS, "qrels/test.parquet": test, "qrels/train.parquet": train})
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
    packed_folder = write({**BEIR, "corpus.jsonl": b"", "corpus.jsonl.gz": gzip.compress(bomb)})
    (packed_folder / "corpus.jsonl").unlink()
    with pytest.raises(DataError, match=rf"corpus\.jsonl\.gz: unpacks to more than .*; {rule}"):
        open_dataset(packed_folder).read_documents()


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


PER_SOURCE: Files = {
    "documents.csv": (
        "source,cont_id,content\nguide.pdf,1,A dog.\nguide.pdf,2,A cat.\nweb/faq,1,A harbour.\n"
    ),
    "queries.csv": "query_id,text\nq1,dog\n",
    "judgments.csv": "query_id,doc_id\nq1,web/faq/1\n",
}
ID_PARTS = {"document_id": ["source", "cont_id"], "text": "content"}


def test_ids_that_repeat_per_source(write: Write, read_all: ReadAll) -> None:
    dataset = open_dataset(write(PER_SOURCE))
    one = with_columns(dataset, {**ID_PARTS, "document_id": "cont_id"})
    with pytest.raises(
        DataError, match=r"csv:4: `cont_id`: document id '1' occurs twice, first on"
    ):
        one.read_documents()
    documents, _, qrels = read_all(with_columns(dataset, ID_PARTS))
    assert documents.table.column("document_id").to_pylist() == [
        "guide.pdf/1",
        "guide.pdf/2",
        "web/faq/1",
    ]
    assert documents.table.column("metadata").to_pylist()[2] == '{"cont_id":"1","source":"web/faq"}'
    assert judged(qrels) == [("q1", "web/faq/1", 1)]
    write({"judgments.csv": "query_id,source,cont_id\nq1,guide.pdf,2\n"})
    assert judged(read_all(with_columns(dataset, ID_PARTS))[2]) == [("q1", "guide.pdf/2", 1)]


def test_ids_of_several_columns_that_are_wrong(write: Write, read_all: ReadAll) -> None:
    dataset = open_dataset(write(PER_SOURCE))
    with pytest.raises(UsageError, match="`text` must be one name; a list is for document_id"):
        with_columns(dataset, {"text": ["a", "b"]})
    with pytest.raises(UsageError, match="`document_id` must be a list of different names"):
        with_columns(dataset, {"document_id": []})
    with pytest.raises(DataError, match=r"documents\.csv:2: no 'page' for document_id; found: 'so"):
        with_columns(dataset, {"document_id": ["source", "page"]}).read_documents()
    twice = PER_SOURCE["documents.csv"]
    assert isinstance(twice, str)
    write({"documents.csv": f"{twice}guide.pdf,1,Again.\n"})
    with pytest.raises(
        DataError,
        match=r"csv:5: `source, cont_id`: document id 'guide\.pdf/1' occurs twice, first on line 2",
    ):
        read_all(with_columns(dataset, ID_PARTS))
    write({"documents.csv": "source,cont_id,content\n,1,A dog.\n"})
    with pytest.raises(DataError, match=r"documents\.csv:2: `source`: is ''; must be an id"):
        read_all(with_columns(dataset, ID_PARTS))
