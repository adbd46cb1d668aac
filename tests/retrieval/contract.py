"""An experiment in which every retriever type ranks the same queries, most of them awkward."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.settings import StoreSettings
from tests.llm.server import vector

HOSTILE = (
    "\u202eright to left\u202c \ufeff\u200b\u200d e\u0301\u0301\u0301 \U0001f469\u200d\U0001f52c "
    "\ufffd\ufffe\uffff \U0010ffff <script>alert(1)</script> '; DROP TABLE runs; -- \t\r\n {{x}} %s"
)
DOCUMENTS = {
    "twin-1": "The southern harbour closes when the wind is strong.",
    "twin-2": "The southern harbour closes when the wind is strong.",
    "dog": "A dog needs a ticket of ten crowns.",
    "hostile": f"harbour {HOSTILE}",
    "empty": "",
    "\u00e9-\u6e2f": "The harbour of \u6e2f \u6771\u4eac opens at six; a ferry leaves every hour.",
}
ONE_DOCUMENT = {"only": "The southern harbour closes when the wind is strong."}
QUERIES = {
    "plain": "when does the southern harbour close",
    "other": "ticket for a dog",
    "empty": "",
    "blank": " \t ",
    "none": "zzyzx quux",
    "long": "wind harbour ticket ferry crowns " * 2_000,
    "hostile": HOSTILE,
}
TOP_K = (1, 3, 50)
DEEPEST = TOP_K[-1]

Rows = dict[str, list[dict[str, Any]]]


class Evaluated:
    """The experiment, brought up to date in a store of its own."""

    def __init__(
        self,
        root: Path,
        retrievers: Mapping[str, Mapping[str, Any]],
        documents: Mapping[str, str],
        queries: Mapping[str, str] = QUERIES,
        top_k: Sequence[int] = TOP_K,
    ) -> None:
        folder = root / "data"
        folder.mkdir(parents=True)
        corpus = [{"_id": name, "title": "", "text": text} for name, text in documents.items()]
        asked = [{"_id": name, "text": text} for name, text in queries.items()]
        for file, rows in (("corpus.jsonl", corpus), ("queries.jsonl", asked)):
            (folder / file).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        write_given(root / "given", documents, queries)
        config = {
            "name": "contract",
            "dataset": {"format": "beir"},
            "retrievers": {name: dict(options) for name, options in retrievers.items()},
            "top_k": list(top_k),
            "measurements": {"latency_sample": 0},
        }
        (folder / "experiment.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))
        self.settings = StoreSettings.resolve(root / "store")
        self.documents = documents
        self.pipeline = Pipeline(load_experiment(folder), self.settings)

    def run(self) -> Evaluated:
        """Compute all runs, and nothing of them."""
        for asset, keys in (
            Selection.of(self.pipeline.experiment).keys(self.pipeline.experiment).items()
        ):
            if asset != "overlaps":
                list(self.pipeline.materialize(asset, keys))
        return self

    def table(self, retriever: str, top_k: int = DEEPEST) -> pa.Table:
        """Return a run as it is stored."""
        return self.pipeline.artifact(run_key(self.pipeline.experiment, retriever, top_k)).table()

    def failures(self, retriever: str) -> Mapping[str, str]:
        """Return the queries on which a retriever failed."""
        artifact = self.pipeline.artifact(run_key(self.pipeline.experiment, retriever, DEEPEST))
        return artifact.manifest.failures

    def rows(self, retriever: str, top_k: int = DEEPEST) -> Rows:
        """Return query id -> the rows of its results, as they are stored."""
        found: Rows = {name: [] for name in QUERIES}
        for row in self.table(retriever, top_k).to_pylist():
            found[row["query_id"]].append(row)
        return found


def write_given(
    folder: Path, documents: Mapping[str, str], queries: Mapping[str, str] = QUERIES
) -> None:
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
