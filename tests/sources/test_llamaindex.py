from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from rag_assets.sources import Dataset, Read, open_dataset
from rag_assets.sources.problems import collecting

Write = Callable[[Mapping[str, str | bytes]], Path]
ReadAll = Callable[[Dataset], tuple[Read, Read, Read]]


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
    assert (dataset.format, dataset.default_judge) == ("llamaindex", "document")
    assert (dataset.default_chunking, dataset.root) == ("none", folder)
    documents, queries, qrels = read_all(dataset)
    assert documents.table.column("document_id").to_pylist() == ["n1", "n2", "n3"]
    assert documents.table.column("title").to_pylist() == ["", "", ""]
    assert queries.table.column("text").to_pylist() == ["one", "two"]
    assert qrels.table.select(["query_id", "document_id", "grade"]).to_pydict() == {
        "query_id": ["q1", "q1"],
        "document_id": ["n3", "n1"],
        "grade": [1, 1],
    }
    assert documents.notes == ["1 top-level key is ignored: extra", "1 empty document: n2"]
    assert qrels.notes == ["1 query without a relevant document: q2"]


def test_every_problem_of_a_file_is_collected(write: Write) -> None:
    content = {
        "queries": {"q1": "one", "q2": 5, "q3": None},
        "corpus": {"d": "text", "e": 3, "f": []},
        "relevant_docs": {
            "q1": ["u", "d", 3.5, "v"],
            "q2": "d",
            "q7": ["w", "d", "x"],
            "q8": [],
        },
    }
    file = write({"set.json": json.dumps(content)}) / "set.json"
    dataset = open_dataset(file)
    with collecting() as of_documents:
        documents = dataset.read_documents().table
    with collecting() as of_queries:
        queries = dataset.read_queries().table
    with collecting() as of_qrels:
        qrels = dataset.read_qrels(documents, queries).table
    found = [str(error) for error in (*of_documents, *of_queries, *of_qrels)]
    assert [text.removeprefix(f"{file}: ") for text in found] == [
        "`corpus.e`: is an integer; must be a string",
        "`corpus.f`: is a list; must be a string",
        "`queries.q2`: is an integer; must be a string",
        "`queries.q3`: is null; must be a string",
        "`relevant_docs.q1[0]`: unknown document 'u'"
        "; `dataset: {unknown_documents: keep}` keeps such judgments",
        "`relevant_docs.q1[2]`: is a number; an id must be a string or an integer",
        "`relevant_docs.q1[3]`: unknown document 'v'",
        "`relevant_docs.q2`: is a string; must be a list of node ids",
        "`relevant_docs.q7`: unknown query 'q7'",
        "`relevant_docs.q7[0]`: unknown document 'w'",
        "`relevant_docs.q7[2]`: unknown document 'x'",
    ]
    assert qrels.select(["query_id", "document_id"]).to_pylist() == [
        {"query_id": "q1", "document_id": "d"}
    ]
