"""An experiment in which every retriever type of ours ranks the same awkward queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.testing.retrievers import Evaluated
from tests.llm.server import vector


class EvaluatedWithFiles(Evaluated):
    """What the types read that compute nothing is there too."""

    def prepare(self, root: Path) -> None:
        write_given(root / "given", self.documents, self.queries)


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
    scored = sorted(((len(text), name) for name, text in documents.items()), reverse=True)
    hits = [(name, score) for score, name in scored]
    code = f"def retrieve(query, k):\n    return {hits!r}[:k]\n"
    (folder / "search.py").write_text(code, encoding="utf-8")
    for file, texts in (("chunks.parquet", documents), ("queries.parquet", queries)):
        vectors = [np.array(vector(text), dtype=np.float32) for text in texts.values()]
        pq.write_table(pa.table({"id": list(texts), "vector": vectors}), folder / file)
