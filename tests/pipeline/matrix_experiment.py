"""The experiment of the invalidation matrix: a corpus file, a lexical, an embedding and a fused
retriever, two cut-offs; one document is one chunk, until the chunk size says otherwise.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.static_model import save_static_model
from tests.tiny_experiment import Tiny

DOCUMENTS: list[dict[str, Any]] = [
    {"id": "fares", "text": "A single ticket costs 40 crowns. A dog needs a ticket of 10 crowns."},
    {"id": "harbours", "text": "The southern harbour closes when the wind is strong."},
    {"id": "engines", "text": "Each ferry has two engines. The oil is changed after 500 hours."},
    {"id": "jackets", "text": "Life jackets for children are stored beside the bridge."},
    {"id": "lost", "text": "Lost property is kept for 30 days."},
]

QUERIES: list[dict[str, Any]] = [
    {"query_id": "q1", "text": "what does a ticket for a dog cost", "tags": ["fares"]},
    {"query_id": "q2", "text": "when does the southern harbour close"},
    {"query_id": "q3", "text": "how often is the oil of the engines changed"},
    {"query_id": "q4", "text": "where are life jackets"},
]

JUDGMENTS: list[dict[str, Any]] = [
    {"query_id": "q1", "doc_id": "fares", "relevance": 2},
    {"query_id": "q2", "doc_id": "harbours", "relevance": 1},
    {"query_id": "q3", "doc_id": "engines", "relevance": 1},
    {"query_id": "q4", "doc_id": "jackets", "relevance": 1},
]

CONFIG: dict[str, Any] = {
    "name": "matrix",
    "dataset": {"format": "jsonl", "judge": "document"},
    "chunking": {"parts": {"strategy": "recursive", "max_tokens": 40, "overlap": 0}},
    "retrievers": {
        "bm25": {"type": "bm25", "chunking": "parts", "analyzer": "english", "k1": 1.2},
        "dense": {"type": "embedding", "chunking": "parts", "model": "../models/first"},
        "hybrid": {"type": "rrf", "inputs": ["bm25", "dense"], "candidates": 3},
    },
    "top_k": [1, 3],
    "metrics": ["mrr", "ndcg"],
    "primary": "ndcg@3",
    "baseline": "bm25",
}


@dataclass
class Matrix(Tiny):
    """The experiment's folder, its models and its store."""

    config: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(CONFIG))

    def write(self) -> Matrix:
        texts = [row["text"] for row in (*DOCUMENTS, *QUERIES)]
        for seed, name in enumerate(("first", "second")):
            save_static_model(self.models / name, texts, seed=seed)
        return self.write_files()

    def write_files(self) -> Matrix:
        """Write all but the models."""
        self.folder.mkdir(parents=True)
        self.write_rows("documents.jsonl", DOCUMENTS)
        self.write_rows("queries.jsonl", QUERIES)
        self.write_rows("judgments.jsonl", JUDGMENTS)
        self.write_config()
        return self

    @property
    def models(self) -> Path:
        return self.root / "models"

    def write_config(self) -> None:
        """Write the YAML; models are named by where they are now."""
        written = copy.deepcopy(self.config)
        for retriever in written["retrievers"].values():
            if "model" in retriever:
                retriever["model"] = str(self.root / retriever["model"].removeprefix("../"))
        kept, self.config = self.config, written
        super().write_config()
        self.config = kept

    def copied(self, root: Path) -> Matrix:
        """Return a copy whose configuration names the copied models."""
        moved = Matrix(root, self.copy_to(root).config)
        moved.write_config()
        return moved

    def n_vectors(self) -> int:
        """Return how many texts were embedded and kept."""
        files = (self.root / "store" / "cache" / "embeddings").rglob("*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)
