"""TREC, BEIR, SQuAD, AutoRAG and LlamaIndex."""

from __future__ import annotations

import datetime
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES, column_values
from rag_assets.sources import Dataset, Read, open_dataset
from rag_assets.sources.dataset import Problems
from tests.sources.files import Files, ReadAll, Write

FILES: Files = {
    "topics.301.gz": gzip.compress(b"051\tAirbus Subsidies & more\n\n52\tOnly a description\n"),
    "qrels.301.txt": "051 0 FT#1 2\r\n\r\n051  Q0\tFT-2  -1\r\n52 7 FT-2 1.0\r\n",
    "corpus/a/docs.tsv.gz": gzip.compress(
        b"FT#1\tThe text.\tThe title \nFT-2\t3 < 4 &amp; so on.\n"
    ),
    "corpus/.hidden": b"\xff",
}


def defaults(dataset: Dataset) -> tuple[str, str, str]:
    return dataset.format, dataset.default_judge, dataset.default_chunking


def values_of(read: Read, *columns: str) -> list[tuple[Any, ...]]:
    """The rows, or some columns of them."""
    return [*column_values(read.table, *(columns or read.table.column_names))]


def test_classic_collection(write: Write, read_all: ReadAll) -> None:
    dataset = open_dataset(write(FILES))
    assert defaults(dataset) == ("trec", "document", "none")
    documents, queries, qrels = read_all(dataset)
    assert values_of(documents) == [
        ("FT#1", "The title", "The text.", "{}"),
        ("FT-2", "", "3 < 4 &amp; so on.", "{}"),
    ]
    assert values_of(queries, "query_id", "text") == [
        ("051", "Airbus Subsidies & more"),
        ("52", "Only a description"),
    ]
    assert values_of(qrels, "query_id", "evidence_id", "document_id", "grade") == [
        ("051", "FT#1", "FT#1", 2),
        ("051", "FT-2", "FT-2", -1),
        ("52", "FT-2", "FT-2", 1),
    ]


def test_plain_topics_and_json_corpus(write: Write, read_all: ReadAll) -> None:
    lines = [{"id": 1, "contents": "t", "url": "u"}, {"docno": "b c", "text": "t", "title": "T"}]
    folder = write(
        {
            "topics.tsv": "q 1\twith  tab \r\nq2  first blank\n\n#3 hash\n",
            "qrels": "q2 0 1 1\n",
            "corpus.jsonl": "\n".join(json.dumps(line) for line in lines),
        }
    )
    documents, queries, qrels = read_all(open_dataset(folder))
    assert values_of(documents, "document_id", "metadata") == [("1", '{"url":"u"}'), ("b c", "{}")]
    assert values_of(queries, "query_id", "text") == [
        ("q 1", "with  tab "),
        ("q2", "first blank"),
        ("#3", "hash"),
    ]
    assert qrels.table.num_rows == 1


def test_subsets(write: Write) -> None:
    files = {"corpus.tsv": "", "topics.tsv": "1\ta", "qrels.dev.txt": "", "qrels-test.txt.gz": ""}
    folder = write(files)
    dataset = open_dataset(folder, subset="test")
    assert [f.name for f in dataset.qrels_files()] == ["qrels-test.txt.gz"]
    assert [f.name for f in dataset.query_files()] == ["topics.tsv"]
    with pytest.raises(UsageError, match=r"no qrels of subset 'tset' .*allowed: test, dev"):
        open_dataset(folder, subset="tset")
    write({"topics.dev.txt": "1 a"})
    assert [f.name for f in open_dataset(folder, subset="dev").query_files()] == ["topics.dev.txt"]


def test_all_problems_are_collected(write: Write, read_all: ReadAll) -> None:
    qrels = "051 0 FT#1\n051 0 FT#1 x\n051 0 nope 1\n52 0 FT-2 1\n"
    folder = write({**FILES, "qrels.301.txt": qrels})
    problems = Problems(collect=True)
    assert read_all(open_dataset(folder), problems)[2].table.num_rows == 1
    assert [str(p).split(": ")[0][-1] for p in problems.collected or ()] == ["1", "2", "3"]


CONTEXT = "Rollo led the Norse. The Norse came from Denmark."


def question(number: str, *answers: tuple[str, int | None], **more: Any) -> dict[str, Any]:
    listed = [
        {"text": text} if start is None else {"text": text, "answer_start": start}
        for text, start in answers
    ]
    return {"id": number, "question": f"{number}?", "answers": listed, **more}


def squad(*paragraphs: tuple[str, list[dict[str, Any]]], title: str = "The Normans") -> str:
    listed = [{"context": context, "qas": qas} for context, qas in paragraphs]
    return json.dumps({"version": "v2.0", "data": [{"title": title, "paragraphs": listed}]})


def test_answers_are_alternatives_of_one_evidence(write: Write, read_all: ReadAll) -> None:
    qas = [
        question("a", ("Rollo", 0), ("Rollo led", 0), ("Rollo", 0)),
        question("b", is_impossible=True, plausible_answers=[{"text": "x"}]),
    ]
    folder = write({"a.json": squad((CONTEXT, qas), ("Other.", []), (CONTEXT, []))})
    dataset = open_dataset(folder / "a.json")
    assert defaults(dataset) == ("squad", "evidence", "none")
    documents, queries, qrels = read_all(dataset)
    assert values_of(documents) == [
        ("The_Normans_p00", "The Normans", CONTEXT, "{}"),
        ("The_Normans_p01", "The Normans", "Other.", "{}"),
    ]
    assert documents.notes == ["1 repeated context is one document: The_Normans_p00"]
    metadata = [json.loads(text) for text in queries.table.column("metadata").to_pylist()]
    assert metadata == [
        {"answers": ["Rollo", "Rollo led"], "paragraph": "The_Normans_p00"},
        {
            "is_impossible": True,
            "paragraph": "The_Normans_p00",
            "plausible_answers": [{"text": "x"}],
        },
    ]
    assert values_of(qrels) == [
        ("a", "The_Normans_p00", "The_Normans_p00", 0, 5, 1),
        ("a", "The_Normans_p00", "The_Normans_p00", 0, 9, 1),
    ]
    assert qrels.notes == ["1 query without a relevant document: b"]


def test_repairs_are_counted(write: Write, read_all: ReadAll) -> None:
    qas = [question("a", ("Denmark", 3)), question("b", ("Rollo", None)), question("c")]
    _, queries, qrels = read_all(open_dataset(write({"a.json": squad((CONTEXT, qas))}) / "a.json"))
    assert qrels.table.column("start").to_pylist() == [41, 0]
    assert qrels.notes[0] == (
        "2 times answer_start is corrected to the one place of its text, in questions: a, b"
    )
    assert queries.notes == []


def test_answers_without_a_place_are_left_out_and_counted(write: Write, read_all: ReadAll) -> None:
    """As in CMRC 2018: free wording, ``answer_start: -1``, beside an answer that stands there."""
    qas = [
        question("kept", ("the leader Rollo", -1), ("Rollo", 0), ("Rollo, led", 0)),
        question("lost", ("nobody knows", -1), ("Norse", None), (" ", 5)),
        question("c", ("Denmark", 41)),
    ]
    folder = write({"a.json": squad((CONTEXT, qas))})
    _, queries, qrels = read_all(open_dataset(folder / "a.json"))
    assert queries.notes == []
    texts = [json.loads(row).get("answers") for row in queries.table["metadata"].to_pylist()]
    assert texts == [["Rollo"], None, ["Denmark"]]
    assert values_of(qrels, "query_id", "start") == [("kept", 0), ("c", 41)]
    assert qrels.notes == [
        "5 answers are left out: blank, not in its paragraph, or more than once there: "
        "kept 'the leader Rollo', kept 'Rollo, led', lost 'nobody knows', lost 'Norse', lost ' '",
        "1 question has no label, because none of its answers can be used: lost",
        "1 query without a relevant document: lost",
    ]


def test_articles_of_one_title_count_on(write: Write, read_all: ReadAll) -> None:
    content = json.loads(squad(("A.", [question("a", ("A", 0))])))
    content["data"] += json.loads(squad(("B.", []), title="The_Normans"))["data"]
    folder = write({"a.json": json.dumps(content)})
    documents = read_all(open_dataset(folder / "a.json"))[0].table
    assert documents.column("document_id").to_pylist() == ["The_Normans_p00", "The_Normans_p01"]


@pytest.mark.real_data
def test_dev_set(shared_data: Any, read_all: ReadAll) -> None:
    """The published file, and the same questions as a BEIR folder."""
    folder = shared_data("squad_dev_v2")
    documents, queries, qrels = read_all(open_dataset(folder / "dev-v2.0.rebuilt.json"))
    others = beir_documents, beir_queries, beir_qrels = read_all(open_dataset(folder))
    assert [read.table.num_rows for read in others] == [1204, 11873, 5928]
    assert documents.table.equals(beir_documents.table)
    asked = ("query_id", "text")
    assert queries.table.select(asked).equals(beir_queries.table.select(asked))
    assert beir_queries.notes == []
    for notes in (qrels.notes, beir_qrels.notes):
        assert len(notes) == 1
        assert notes[0].startswith("5945 queries without a relevant document: 5ad39d53604f3c001a")
    pairs = ("query_id", "document_id")
    assert {*values_of(qrels, *pairs)} == {*values_of(beir_qrels, *pairs)}
    texts = dict(values_of(documents, "document_id", "text"))
    metadata = dict(values_of(queries, "query_id", "metadata"))
    for query, document, start, end in values_of(qrels, *pairs, "start", "end"):
        assert texts[document][start:end] in json.loads(metadata[query])["answers"]


def test_tables_of_a_file(write: Write, read_all: ReadAll) -> None:
    content = {
        "queries": {"q1": "one", "q2": "two"},
        "corpus": {"n1": "alpha", "n2": " ", "n3": "gamma"},
        "relevant_docs": {"q1": ["n3", "n1"], "q2": []},
        "mode": "text",
        "extra": 1,
    }
    folder = write({"set.json": json.dumps(content)})
    dataset = open_dataset(folder / "set.json")
    assert defaults(dataset) == ("llamaindex", "document", "none")
    assert dataset.root == folder
    documents, queries, qrels = read_all(dataset)
    assert values_of(documents, "document_id", "title") == [("n1", ""), ("n2", ""), ("n3", "")]
    assert values_of(queries, "text") == [("one",), ("two",)]
    labels = values_of(qrels, "query_id", "document_id", "grade")
    assert labels == [("q1", "n3", 1), ("q1", "n1", 1)]
    assert documents.notes == ["1 empty document: n2"]
    assert qrels.notes == ["1 query without a relevant document: q2"]


def test_every_problem_of_a_file_is_collected(write: Write, read_all: ReadAll) -> None:
    content = {
        "queries": {"q1": "one", "q2": 5, "q3": None},
        "corpus": {"d": "text", "e": 3, "f": []},
        "relevant_docs": {"q1": ["u", "d", 3.5, "v"], "q2": "d", "q7": ["w", "d", "x"], "q8": []},
    }
    file = write({"set.json": json.dumps(content)}) / "set.json"
    dataset = open_dataset(file)
    problems = Problems(collect=True)
    qrels = read_all(dataset, problems)[2]
    found = [str(error).removeprefix(f"{file}: ") for error in problems.collected or ()]
    assert found == [
        "`corpus.e`: is 3; must be a string",
        "`corpus.f`: is []; must be a string",
        "`queries.q2`: is 5; must be a string",
        "`queries.q3`: is null; must be a string",
        "`relevant_docs.q1[0]`: unknown document 'u'"
        "; `dataset: {unknown_documents: keep}` keeps such judgments",
        "`relevant_docs.q1[2]`: is 3.5; must be an id: a text of one line that is not empty, or an "
        "integer",
        "`relevant_docs.q1[3]`: unknown document 'v'",
        "`relevant_docs.q2`: is 'd'; must be a list of node ids",
        *["`relevant_docs.q7`: unknown query 'q7'"] * 3,
    ]
    assert values_of(qrels, "query_id", "document_id") == [("q1", "d")]


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


def test_groups_are_evidences_and_their_ids_alternatives(tmp_path: Path, read_all: ReadAll) -> None:
    answers = [["yes", "yeah"], None]
    lay_out(tmp_path, [[["d1", "d2"], ["d3"]], [["d4"], ["d4"]]], generation_gt=answers)
    dataset = open_dataset(tmp_path)
    assert defaults(dataset) == ("autorag", "document", "none")
    documents, queries, qrels = read_all(dataset)
    assert values_of(qrels) == [
        ("q0", "1", "d1", None, None, 1),
        ("q0", "1", "d2", None, None, 1),
        ("q0", "2", "d3", None, None, 1),
        ("q1", "1", "d4", None, None, 1),
        ("q1", "2", "d4", None, None, 1),
    ]
    assert values_of(queries, "metadata") == [('{"generation_gt":["yes","yeah"]}',), ("{}",)]
    (first, _), *others = values_of(documents, "metadata", "title")
    assert json.loads(first)["page"] == 1
    assert json.loads(first)["at"].startswith("2024-01-02T03")
    assert others == [("{}", "")] * 3


def test_no_ground_truth(tmp_path: Path, read_all: ReadAll) -> None:
    lay_out(tmp_path, [[["d1"]], [[]], [[""]], [], None, [None], [[None]]])
    _, queries, qrels = read_all(open_dataset(tmp_path))
    assert queries.table.num_rows == 7
    assert qrels.table.num_rows == 1
    assert qrels.notes == ["6 queries without a relevant document: q1, q2, q3, q4, q5 and 1 more"]


def test_what_is_left_out_is_counted(tmp_path: Path, read_all: ReadAll) -> None:
    lay_out(tmp_path, [[["d1"], []], [["d2", ""], ["d3"]], [["d1", "d2", "d1"]]])
    qrels = read_all(open_dataset(tmp_path))[2]
    assert values_of(qrels, "query_id", "evidence_id", "document_id") == [
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
    def refusal() -> str:
        with pytest.raises(DataError) as caught:
            open_dataset(tmp_path)
        return str(caught.value).removeprefix(f"{tmp_path}: more than one file may be ")

    lay_out(tmp_path, [[["d1"]]], qa="my_qa_b")
    lay_out(tmp_path, [[["d1"]]], qa="qa_a")
    choice = "qa.parquet: my_qa_b.parquet, qa_a.parquet; choose with subset: my_qa_b"
    assert refusal() == choice
    assert open_dataset(tmp_path, subset="qa_a").query_files() == [tmp_path / "qa_a.parquet"]
    with pytest.raises(UsageError, match="no subset 'x'; allowed: my_qa_b, qa_a"):
        open_dataset(tmp_path, subset="x")
    lay_out(tmp_path, [[["d1"]]], qa="qa", corpus="a_corpus")
    dataset = open_dataset(tmp_path)
    assert dataset.query_files() == [tmp_path / "qa.parquet"]
    assert dataset.document_files() == [tmp_path / "corpus.parquet"]
    (tmp_path / "corpus.parquet").rename(tmp_path / "b_corpus.parquet")
    assert refusal() == "corpus.parquet: a_corpus.parquet, b_corpus.parquet; keep one"


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
    shared_data: Any, read_all: ReadAll, name: str, subset: str | None, rows: tuple[int, int, int]
) -> None:
    tables = read_all(open_dataset(shared_data("autorag_sample") / name, subset=subset))
    assert tuple(read.table.num_rows for read in tables) == rows
    assert [read.notes for read in tables] == [[], [], []]
    assert all("generation_gt" in text for text in tables[1].table.column("metadata").to_pylist())


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
BEIR: Files = {
    "corpus.jsonl": b"\xef\xbb\xbf" + CORPUS.encode(),
    "queries.jsonl": QUERIES_TEXT,
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\r\nq1\td1\t2\r\nq1  2   -1.0\r\n7\td 3\t0\r\n",
}


def test_tables_of_a_folder(write: Write, read_all: ReadAll) -> None:
    documents, queries, qrels = read_all(open_dataset(write(BEIR)))
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
    table = open_dataset(write({**BEIR, "corpus.jsonl": corpus})).read_documents().table
    assert table.column("metadata").to_pylist() == ['{"metadata":{"url":2},"url":1}']


def test_queries_of_another_subset_are_left_out_and_counted(write: Write) -> None:
    queries = "".join(f'{{"_id": "q{i}", "text": "t"}}\n' for i in range(5))
    subsets = {"qrels/test.tsv": "q0 d1 1\nq1 d1 0\n"}
    subsets["qrels/train.tsv"] = "q1 d1 1\nq2 d1 1\nq3 d1 0\n"
    folder = write({**BEIR, "queries.jsonl": queries, **subsets})
    test, train = open_dataset(folder), open_dataset(folder, subset="train")
    read = test.read_queries()
    assert read.table.column("query_id").to_pylist() == ["q0", "q1", "q3", "q4"]
    assert read.notes == ["1 query that is not of subset test is left out: q2"]
    assert train.read_queries().table.column("query_id").to_pylist() == ["q1", "q2", "q3", "q4"]
    assert [f.name for f in test.query_files()] == ["queries.jsonl", "test.tsv", "train.tsv"]
    assert [f.name for f in test.qrels_files()] == ["test.tsv"]


def test_the_only_subset_is_the_default(write: Write, read_all: ReadAll) -> None:
    dataset = open_dataset(write({**BEIR, "qrels/test.tsv": None, "qrels/dev.tsv": "q1 d1 1\n"}))
    assert read_all(dataset)[2].table.num_rows == 1
    assert [f.name for f in dataset.query_files()] == ["queries.jsonl"]


def test_subset_must_be_chosen_among_several(write: Write) -> None:
    labels = {
        "qrels/test.tsv": None,
        **dict.fromkeys(("qrels/dev.tsv", "qrels/train.tsv"), "q1 d1 1"),
    }
    folder = write({**BEIR, **labels})
    with pytest.raises(DataError, match=r"has no test\.tsv; choose a subset: dev, train$"):
        open_dataset(folder)
    with pytest.raises(UsageError, match=r"no subset 'trian' \(did you mean 'train'\?\); allo"):
        open_dataset(folder, subset="trian")


def test_many_batches_give_one_table(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assets.sources.tables.BATCH_ROWS", 7)
    corpus = "".join(f'{{"_id": {i}, "text": "t{i}"}}\n' for i in range(100))
    table = open_dataset(write({**BEIR, "corpus.jsonl": corpus})).read_documents().table
    assert table.column("text").to_pylist() == [f"t{i}" for i in range(100)]


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "rows"), [("doc_qa_test", (433, 321, 321)), ("pg_eval_dataset", (57, 114, 114))]
)
def test_row_counts(
    shared_data: Any, read_all: ReadAll, name: str, rows: tuple[int, int, int]
) -> None:
    tables = read_all(open_dataset(shared_data("seed_doc_qa") / f"{name}.json"))
    assert tuple(read.table.num_rows for read in tables) == rows


@pytest.mark.real_data
def test_cranfield_and_its_codes_as_a_subset(shared_data: Any, read_all: ReadAll) -> None:
    documents, queries, qrels = read_all(open_dataset(shared_data("cranfield")))
    assert [read.table.num_rows for read in (documents, queries, qrels)] == [1400, 225, 1837]
    assert documents.notes[-1] == "2 empty documents: 471, 995"
    assert queries.notes == []
    assert pc.sum(pc.greater(qrels.table.column("grade"), 0)).as_py() == 1612
    assert queries.table.column("metadata")[3].as_py() == '{"original_id":"008"}'
    codes = open_dataset(shared_data("cranfield"), subset="test_code")
    grades = codes.read_qrels(documents.table, codes.read_queries().table).table["grade"]
    assert Counter(grades.to_pylist()) == {-1: 225, 1: 128, 2: 387, 3: 734, 4: 363}
