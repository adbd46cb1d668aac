from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from rag_assets.datasets import Dataset, Read, open_dataset

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
