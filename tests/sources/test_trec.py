from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.label_files import read_labels
from rag_assets.sources import open_dataset
from rag_assets.sources.problems import Problems

TOPICS = """
<top>
<num> Number: 051
<title> Topic: Airbus Subsidies & more

<desc> Description:
Discusses government
assistance.
<narr> Narrative: Relevant
</top>

<top><num>52</num><title></title><desc>Only a description</desc></top>
"""
DOCS = """<?xml version="1.0"?>
<docs>
<DOC>
<DOCNO> FT#1 </DOCNO>
<DATE>910514</DATE>
<HEADLINE>FT 14 MAY /
  (CORRECTED) AT&amp;T</HEADLINE>
<TEXT>
First paragraph with <b>tags</b>.

Second, 3 < 4 &amp; so on.
</TEXT>
<TEXT>More.</TEXT>
</DOC>
<doc><docno>FT-2</docno>
<P>No text element,
<P>open tags. <SO>kept</SO>
</doc></docs>
"""
FILES = {
    "topics.301.gz": gzip.compress(TOPICS.encode()),
    "qrels.301.txt": "051 0 FT#1 2\r\n\r\n051  Q0\tFT-2  -1\r\n52 7 FT-2 1.0\r\n",
    "corpus/a/docs.txt.gz": gzip.compress(DOCS.encode()),
    "corpus/.hidden": b"\xff",
}


def test_classic_collection(write: Any, read_all: Any) -> None:
    dataset = open_dataset(write(FILES))
    assert (dataset.format, dataset.default_judge, dataset.default_chunking) == (
        "trec",
        "document",
        "none",
    )
    documents, queries, qrels = (read.table.to_pylist() for read in read_all(dataset))
    assert documents == [
        {
            "document_id": "FT#1",
            "title": "FT 14 MAY / (CORRECTED) AT&T",
            "text": "First paragraph with tags.\n\nSecond, 3 < 4 & so on.\nMore.",
            "metadata": '{"date":"910514"}',
        },
        {
            "document_id": "FT-2",
            "title": "",
            "text": "No text element,\nopen tags.\nkept",
            "metadata": "{}",
        },
    ]
    assert [(q["query_id"], q["text"]) for q in queries] == [
        ("051", "Airbus Subsidies & more"),
        ("52", "Only a description"),
    ]
    assert json.loads(queries[0]["metadata"]) == {
        "desc": "Discusses government assistance.",
        "narr": "Relevant",
    }
    assert [(q["query_id"], q["evidence_id"], q["document_id"], q["grade"]) for q in qrels] == [
        ("051", "FT#1", "FT#1", 2),
        ("051", "FT-2", "FT-2", -1),
        ("52", "FT-2", "FT-2", 1),
    ]


def test_plain_topics_and_json_corpus(write: Any, read_all: Any) -> None:
    lines = [{"id": 1, "contents": "t", "url": "u"}, {"docno": "b c", "text": "t", "title": "T"}]
    folder = write(
        {
            "topics.tsv": "q 1\twith  tab \r\nq2  first blank\n\n#3 hash\n",
            "qrels": "q2 0 1 1\n",
            "corpus.jsonl": "\n".join(json.dumps(line) for line in lines),
        }
    )
    documents, queries, qrels = (read.table for read in read_all(open_dataset(folder)))
    assert documents.column("document_id").to_pylist() == ["1", "b c"]
    assert documents.column("metadata").to_pylist() == ['{"url":"u"}', "{}"]
    assert [(q["query_id"], q["text"]) for q in queries.to_pylist()] == [
        ("q 1", "with  tab "),
        ("q2", "first blank"),
        ("#3", "hash"),
    ]
    assert qrels.num_rows == 1


def test_subsets(write: Any) -> None:
    files = {
        "corpus.trec": DOCS,
        "topics.tsv": "1\ta",
        "qrels.dev.txt": "",
        "qrels-test.txt.gz": "",
    }
    folder = write(files)
    with pytest.raises(DataError) as caught:
        open_dataset(folder)
    assert str(caught.value) == (
        f"{folder}: more than one file for qrels: qrels-test.txt.gz, qrels.dev.txt; choose a subset"
    )
    dataset = open_dataset(folder, subset="test")
    assert [f.name for f in dataset.qrels_files()] == ["qrels-test.txt.gz"]
    assert [f.name for f in dataset.query_files()] == ["topics.tsv"]
    with pytest.raises(UsageError, match=r"no qrels of subset 'tset' .*allowed: test, dev"):
        open_dataset(folder, subset="tset")
    write({"topics.dev.txt": "1 a"})
    assert [f.name for f in open_dataset(folder, subset="dev").query_files()] == ["topics.dev.txt"]


def test_ids_of_all_files_are_unique(write: Any, read_all: Any) -> None:
    doc = "<DOC><DOCNO>a</DOCNO><TEXT>t</TEXT></DOC>"
    folder = write({"topics.t": "1 q", "qrels": "1 0 a 1", "docs/1": doc, "docs/2": doc})
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(folder))
    assert str(caught.value) == (
        f"{folder}/docs/2:1: `DOCNO`: document id 'a' occurs twice, first on line 1 of 1"
    )


def test_one_reader_of_qrels_lines(write: Any, read_all: Any) -> None:
    folder = write(FILES)
    scored = read_labels(folder / "qrels.301.txt").judgments
    dataset = read_all(open_dataset(folder))[2].table
    columns = ("query_id", "evidence_id", "grade")
    assert scored.select(columns).to_pylist() == dataset.select(columns).to_pylist()


def test_all_problems_are_collected(write: Any, read_all: Any) -> None:
    qrels = "051 0 FT#1\n051 0 FT#1 x\n051 0 nope 1\n52 0 FT-2 1\n"
    folder = write({**FILES, "qrels.301.txt": qrels})
    problems = Problems(collect=True)
    assert read_all(open_dataset(folder), problems)[2].table.num_rows == 1
    assert [str(p).split(": ")[0][-1] for p in problems.collected or ()] == ["1", "2", "3"]


def test_elements_do_not_nest_and_may_stay_open(write: Any, read_all: Any) -> None:
    block = "<DOC><DOCNO>d1</DOCNO>a<x>1<y>2</x>b<z>c</y></DOC>"
    folder = write({"corpus.txt": block, "topics.txt": "q t\n", "qrels.txt": "q 0 d1 1\n"})
    assert read_all(open_dataset(folder))[0].table["text"].to_pylist() == ["abc\n12"]


XML_TOPICS = """<?xml version="1.0" encoding="UTF-8"?>
<!-- as of TREC-COVID, the Web track and Clinical Trials -->
<topics task="made up">
  <topic number="1" type="faceted">
    <query>fares &amp; dogs</query>
    <question>what does a dog
      pay</question>
    <subtopic number="1">dogs</subtopic><subtopic number="2">cats</subtopic>
  </topic>
  <topic number='2'>
    A patient with <b>fever</b>, &lt; 3 days.
  </topic>
  <topic><num>3</num><description><![CDATA[5 < 6 & more]]></description></topic>
</topics>
"""


def test_xml_topics(write: Any) -> None:
    doc = '{"id": "a", "text": "t"}\n'
    folder = write({"topics.xml": XML_TOPICS, "qrels.txt": "1 0 a 1\n", "corpus.jsonl": doc})
    queries = open_dataset(folder).read_queries().table.to_pylist()
    assert [(row["query_id"], row["text"]) for row in queries] == [
        ("1", "fares & dogs"),
        ("2", "A patient with , < 3 days."),
        ("3", "5 < 6 & more"),
    ]
    assert [json.loads(row["metadata"]) for row in queries] == [
        {"question": "what does a dog pay", "subtopic": ["dogs", "cats"], "type": "faceted"},
        {"b": "fever"},
        {},
    ]
