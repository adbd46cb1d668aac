"""An experiment in which every retriever type of ours ranks the same awkward queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.testing.retrievers import QUERIES, TOP_K, Evaluated
from tests.llm.server import vector


class EvaluatedWithFiles(Evaluated):
    """What the types read that compute nothing is there too."""

    def __init__(
        self,
        root: Path,
        retrievers: Mapping[str, Mapping[str, Any]],
        documents: Mapping[str, str],
        queries: Mapping[str, str] = QUERIES,
        top_k: Sequence[int] = TOP_K,
    ) -> None:
        hits = [{"id": name, "score": score} for name, score in scored(documents)]
        asking = {
            name: {**options, "body": {**options["body"], "documents": hits}}
            for name, options in retrievers.items()
            if options["type"] == "http"
        }
        super().__init__(root, {**retrievers, **asking}, documents, queries, top_k)

    def prepare(self, root: Path) -> None:
        write_given(root / "given", self.documents, self.queries)


def scored(documents: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the documents by their length, the longest first."""
    by_length = sorted(((len(text), name) for name, text in documents.items()), reverse=True)
    return [(name, score) for score, name in by_length]


def write_given(folder: Path, documents: Mapping[str, str], queries: Mapping[str, str]) -> None:
    """Write what is read, not computed: a run, and vectors of all documents and queries."""
    folder.mkdir()
    # Of equal texts both the scores and the vectors are equal.
    ranked = sorted(documents, key=lambda name: (-len(documents[name]), name))
    lines = [
        f"{query} Q0 {name} {rank} {len(documents[name])} made\n"
        for query in queries
        for rank, name in enumerate(ranked, start=1)
    ]
    (folder / "run.trec").write_text("".join(lines), encoding="utf-8")
    code = f"def retrieve(query, k):\n    return {scored(documents)!r}[:k]\n"
    (folder / "search.py").write_text(code, encoding="utf-8")
    with duckdb.connect(str(folder / "search.duckdb")) as database:
        database.execute("CREATE TABLE hits (id VARCHAR, score INTEGER)")
        database.executemany("INSERT INTO hits VALUES (?, ?)", scored(documents))
    for file, texts in (("chunks.parquet", documents), ("queries.parquet", queries)):
        vectors = [np.array(vector(text), dtype=np.float32) for text in texts.values()]
        pq.write_table(pa.table({"id": list(texts), "vector": vectors}), folder / file)
