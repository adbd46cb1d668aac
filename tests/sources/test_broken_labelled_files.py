"""Bad TREC, SQuAD and AutoRAG inputs, each with the whole line that it must give."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import DataError
from rag_assets.sources import open_dataset

TREC: dict[str, str | bytes | None] = {
    "topics.txt": "q1 text\n",
    "qrels.txt": "q1 0 d1 1\n",
    "corpus.txt": "<DOC><DOCNO>d1</DOCNO><TEXT>t</TEXT></DOC>\n",
}
REMEDY = "; `dataset: {unknown_documents: keep}` keeps such judgments"
LINE = "a qrels line is 'query iteration document grade'"

TREC_CASES: list[tuple[str, str | bytes | None, str]] = [
    ("qrels.txt", None, ": not a TREC folder: qrels* missing"),
    ("topics.txt", None, ": not a TREC folder: topics.* or queries.tsv missing"),
    ("corpus.txt", None, ": not a TREC folder: corpus.*, corpus/ or collection.tsv missing"),
    ("docs.jsonl", "", ": more than one file for the corpus: corpus.txt, docs.jsonl; keep one"),
    (
        "topics.b.txt",
        "",
        ": more than one file for topics: topics.b.txt, topics.txt; choose a subset",
    ),
    ("qrels.txt", "q1 d1 1\n", f"/qrels.txt:1: has 3 fields; {LINE}"),
    ("qrels.txt", "\nq1 0 d1 1 x\n", f"/qrels.txt:2: has 5 fields; {LINE}"),
    ("qrels.txt", "q1 0 d1 high\n", "/qrels.txt:1: grade 'high' is not an integer"),
    ("qrels.txt", "q1 0 d1 2147483648\n", "/qrels.txt:1: grade 2147483648 does not fit 32 bits"),
    (
        "qrels.txt",
        "q1 0 d1 1\nq1 1 d1 2\n",
        "/qrels.txt:2: query 'q1' and document 'd1' are judged twice, first on line 1",
    ),
    (
        "qrels.txt",
        b"q1 0 d\xff 1\n",
        "/qrels.txt:1: is not UTF-8 text (invalid start byte)",
    ),
    ("topics.txt", "q1\n", "/topics.txt:1: found no text; must be 'id<TAB>text' or 'id text'"),
    (
        "topics.txt",
        "\ttext\n",
        (
            "/topics.txt:1: `id`: is ''; must be an id: a text of one line that is "
            "not empty, or an integer"
        ),
    ),
    (
        "topics.txt",
        "q1 a\nq1 b\n",
        "/topics.txt:2: `num`: query id 'q1' occurs twice, first on line 1",
    ),
    ("topics.txt", "\n<top><num>1<title>t\n", "/topics.txt:2: <top> has no </top>"),
    (
        "topics.txt",
        "<top>\n<num>1<title>t\n<top>\n",
        "/topics.txt:3: <top> inside the <top> of line 1",
    ),
    ("topics.txt", "<top><title>t</top>", "/topics.txt:1: `num`: is missing; found: title"),
    (
        "topics.txt",
        "<top><num>1<narr>t</top>",
        ("/topics.txt:1: `title`: is missing or empty, and there is no other text"),
    ),
    (
        "topics.txt",
        "<top><num>1<num>2</top>",
        "/topics.txt:1: `num`: occurs twice in one topic",
    ),
    (
        "topics.txt",
        "<top><num><title>t</top>",
        (
            "/topics.txt:1: `num`: is ''; must be an id: a text of one line that "
            "is not empty, or an integer"
        ),
    ),
    (
        "topics.txt",
        "<topics>\n<topic><query>t</query></topic>\n</topics>",
        "/topics.txt:2: `num`: is missing; found: query",
    ),
    (
        "topics.txt",
        '<topic number="1"><query> </query><narrative>n</narrative></topic>',
        ("/topics.txt:1: `title`: is missing or empty, and there is no other text"),
    ),
    (
        "topics.txt",
        '<topic number="1">\n<query>a</query><query>b</query></topic>',
        "/topics.txt:1: `query`: occurs twice in one topic",
    ),
    ("topics.txt", '<topic number="1">\n<query>a', "/topics.txt:1: <topic> has no </topic>"),
    ("corpus.txt", "<DOC>\n<DOCNO>d1</DOCNO>\n", "/corpus.txt:1: <DOC> has no </DOC>"),
    ("corpus.txt", "</DOC>", "/corpus.txt:1: </DOC> without <DOC>"),
    (
        "corpus.txt",
        "\nplain text",
        "/corpus.txt:2: expected a TREC corpus: <DOC> blocks, or JSON lines in a file .jsonl; "
        "found 'plain text'",
    ),
    (
        "corpus.txt",
        "<html>\n<p>a page</p>",
        "/corpus.txt:2: expected a TREC corpus: <DOC> blocks, or JSON lines in a file .jsonl; "
        "found 'a page'",
    ),
    (
        "corpus.txt",
        "<DOC>\n<DOCNO>d1</DOCNO>\n</DOC>\nplain text",
        "/corpus.txt:4: text outside of <DOC>: 'plain text'",
    ),
    (
        "corpus.txt",
        "<DOC>\n<TEXT>t</TEXT></DOC>",
        "/corpus.txt:1: `DOCNO`: is missing in this <DOC>",
    ),
    (
        "corpus.txt",
        "<DOC><DOCNO>a</DOCNO><DOCNO>b</DOCNO></DOC>",
        "/corpus.txt:1: `DOCNO`: occurs twice in one <DOC>",
    ),
    ("corpus.txt", "<docs></docs>", "/corpus.txt: holds no document; at least one is needed"),
]


def squad(qas: Any, context: Any = "One two one.") -> str:
    paragraph = {"context": context, "qas": qas}
    return json.dumps({"data": [{"title": "T", "paragraphs": [paragraph]}]})


def answer(text: Any, start: Any = 0, **more: Any) -> str:
    found = [{"text": text, "answer_start": start}]
    return squad([{"id": "q", "question": "?", "answers": found, **more}])


QA = "data[0].paragraphs[0].qas[0]"
SQUAD_CASES = [
    ("{}", "`data`: is missing; found keys: none"),
    ('{"data": {}}', "`data`: is an object; must be a list of objects"),
    ('{"data": [1]}', "`data[0]`: is 1; must be an object"),
    ('{"data": [{"paragraphs": []}]}', "`data[0].title`: is missing; found keys: 'paragraphs'"),
    ('{"data": [{"title": "T"}]}', "`data[0].paragraphs`: is missing; found keys: 'title'"),
    (squad(5), "`data[0].paragraphs[0].qas`: is 5; must be a list of objects"),
    (squad([]), "holds no query; at least one is needed"),
    (squad([{"question": "?"}]), f"`{QA}.id`: is missing; found keys: 'question'"),
    (squad([{"id": "q"}]), f"`{QA}.question`: is missing; found keys: 'id'"),
    (
        squad([{"id": "q", "question": "?", "answers": "One"}]),
        f"`{QA}.answers`: is 'One'; must be a list of objects",
    ),
    (
        squad([{"id": "q", "question": "?"}] * 2),
        f"`data[0].paragraphs[0].qas[1].id`: query id 'q' occurs twice, first at `{QA}.id`",
    ),
    (answer("three"), "holds no judgment; labels are required"),
    (answer("two", "4"), f"`{QA}.answers[0].answer_start`: is '4'; must be an integer"),
    (answer("One", is_impossible=True), f"`{QA}.is_impossible`: is true, but there are answers: 1"),
    (
        squad([{"id": "q", "question": "?", "is_impossible": 1}]),
        f"`{QA}.is_impossible`: is 1; must be true or false",
    ),
    (squad([{"id": "q", "question": "?"}]), "holds no judgment; labels are required"),
]

CORPUS: dict[str, Any] = {"doc_id": ["d1", "d2"], "contents": ["a", "b"]}
ASKED: dict[str, Any] = {"qid": ["q1"], "query": ["t"], "retrieval_gt": [[["d1"]]]}
AUTORAG_CASES: list[tuple[str, dict[str, Any], str]] = [
    ("corpus", {"contents": ["a"]}, ":1: `doc_id`: is missing; found keys: 'contents'"),
    ("corpus", {**CORPUS, "contents": ["a", None]}, ":2: `contents`: is null; must be a string"),
    (
        "corpus",
        {**CORPUS, "doc_id": ["d1", "d1"]},
        ":2: `doc_id`: document id 'd1' occurs twice, first on line 1",
    ),
    (
        "qa",
        {"qid": ["q1"], "query": ["t"]},
        ":1: `retrieval_gt`: is missing; found keys: 'qid', 'query'",
    ),
    (
        "qa",
        {**ASKED, "qid": [1.5]},
        (":1: `qid`: is 1.5; must be an id: a text of one line that is not empty, or an integer"),
    ),
    (
        "qa",
        {**ASKED, "retrieval_gt": ["[['d1']]"]},
        ":1: `retrieval_gt`: is \"[['d1']]\"; must be a list of lists of ids",
    ),
    (
        "qa",
        {**ASKED, "retrieval_gt": [["d1", "d2"]]},
        ":1: `retrieval_gt[0]`: is 'd1'; must be a list of ids",
    ),
    (
        "qa",
        {**ASKED, "retrieval_gt": [[["d1"], ["x"]]]},
        f":1: `retrieval_gt[1]`: unknown document 'x'{REMEDY}",
    ),
    (
        "qa",
        {**ASKED, "retrieval_gt": [[["d1", "a\nb"]]]},
        (
            ":1: `retrieval_gt[0][1]`: is 'a\\nb'; must be an id: a text of one "
            "line that is not empty, or an integer"
        ),
    ),
]


def refusal(path: Path, form: str, read_all: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(path, form))
    return str(caught.value)


@pytest.mark.parametrize(("name", "content", "message"), TREC_CASES)
def test_trec(
    write: Any, read_all: Any, name: str, content: str | bytes | None, message: str
) -> None:
    files = {**TREC, name: content}
    folder = write({key: value for key, value in files.items() if value is not None})
    assert refusal(folder, "trec", read_all) == f"{folder}{message}"


@pytest.mark.parametrize("name", ["topics.txt", "qrels.txt", "corpus.txt"])
def test_damaged_gzip(write: Any, read_all: Any, name: str) -> None:
    whole = gzip.compress(str(TREC[name]).encode())
    files = {key: value for key, value in TREC.items() if key != name}
    folder = write({**files, f"{name}.gz": whole[:-4]})
    assert refusal(folder, "trec", read_all).startswith(
        f"{folder}/{name}.gz: cannot be read: damaged gzip data ("
    )


def test_not_gzip(write: Any, read_all: Any) -> None:
    folder = write({**TREC, "qrels.txt.gz": "x", "qrels.txt": ""})
    (folder / "qrels.txt").unlink()
    assert refusal(folder, "trec", read_all) == (
        f"{folder}/qrels.txt.gz: cannot be read: Not a gzipped file (b'x')"
    )


@pytest.mark.parametrize(("content", "message"), SQUAD_CASES)
def test_squad(write: Any, read_all: Any, content: str, message: str) -> None:
    path = write({"a.json": content}) / "a.json"
    between = ":" if message[0].isdigit() else ": "
    assert refusal(path, "squad", read_all) == f"{path}{between}{message}"


@pytest.mark.parametrize(("part", "columns", "message"), AUTORAG_CASES)
def test_autorag(
    tmp_path: Path, read_all: Any, part: str, columns: dict[str, Any], message: str
) -> None:
    tables = {"corpus": CORPUS, "qa": ASKED, part: columns}
    for name, content in tables.items():
        pq.write_table(pa.table(content), tmp_path / f"{name}.parquet")
    assert refusal(tmp_path, "autorag", read_all) == f"{tmp_path}/{part}.parquet{message}"


def test_autorag_without_a_part(write: Any, read_all: Any) -> None:
    folder = write({"corpus.parquet": "x" * 20})
    assert refusal(folder, "autorag", read_all) == (
        f"{folder}: not an AutoRAG folder: qa.parquet missing"
    )
    write({"qa.parquet": "x"})
    assert refusal(folder, "autorag", read_all).startswith(
        f"{folder}/corpus.parquet: cannot be read as Parquet: Parquet magic bytes not found"
    )
