from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from rag_assets.sources import Dataset, Read, open_dataset
from rag_assets.sources.problems import Problems

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
    parts = [Problems(collect=True) for _ in range(3)]
    documents, queries = (
        dataset.read_documents(parts[0]).table,
        dataset.read_queries(parts[1]).table,
    )
    qrels = dataset.read_qrels(documents, queries, parts[2]).table
    found = [str(error) for part in parts for error in part.collected or ()]
    assert [text.removeprefix(f"{file}: ") for text in found] == [
        "`corpus.e`: is 3; must be a string",
        "`corpus.f`: is []; must be a string",
        "`queries.q2`: is 5; must be a string",
        "`queries.q3`: is null; must be a string",
        "`relevant_docs.q1[0]`: unknown document 'u'"
        "; `dataset: {unknown_documents: keep}` keeps such judgments",
        (
            "`relevant_docs.q1[2]`: is 3.5; must be an id: a text of one line that "
            "is not empty, or an integer"
        ),
        "`relevant_docs.q1[3]`: unknown document 'v'",
        "`relevant_docs.q2`: is 'd'; must be a list of node ids",
        "`relevant_docs.q7`: unknown query 'q7'",
        "`relevant_docs.q7`: unknown query 'q7'",
        "`relevant_docs.q7`: unknown query 'q7'",
    ]
    assert qrels.select(["query_id", "document_id"]).to_pylist() == [
        {"query_id": "q1", "document_id": "d"}
    ]
