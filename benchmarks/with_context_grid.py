"""The grid by context-grid; a contender of ``grid.py``, in its environment.

    PYTHON benchmarks/with_context_grid.py FOLDER MODEL CACHE 60

Its runner over three configurations, one document a chunk, with its cache on disk. It has no
embedder for a local model, so one is registered as its documentation says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import contextgrid as cg
from contextgrid.embed.base import EmbeddingResult
from grid_input import DEPTH, TOP_K, Input, read
from sentence_transformers import SentenceTransformer

MEASURES = {"hit_rate": "hit_rate", "mrr": "mrr", "ndcg": "ndcg", "recall": "recall"}


@dataclass
class Local:
    """Sentence-transformers from a folder."""

    model: str
    name: ClassVar[str] = "local"
    version: ClassVar[str] = "1"
    dimensions: ClassVar[int] = 384
    normalised: ClassVar[bool] = True
    max_tokens: ClassVar[int | None] = None
    _loaded: Any = field(default=None, repr=False)

    def prepare(self, documents: Sequence[str]) -> None:
        """Nothing is learnt from the documents."""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddingResult:
        """Embed all texts at once."""
        if self._loaded is None:
            self._loaded = SentenceTransformer(self.model)
        vectors = self._loaded.encode(list(texts), normalize_embeddings=True)
        return EmbeddingResult(vectors=vectors)

    embed_queries = embed_documents


def spans(given: Input) -> cg.EvalSet:
    """Return the questions, with whole documents as their evidence."""
    items = []
    for query, graded in given.qrels.items():
        gold = tuple(
            cg.GoldSpan(span=cg.Span(name, 0, len(given.documents[name])), grade=grade)
            for name, grade in graded.items()
        )
        items.append(cg.EvalItem(id=query, question=given.queries[query], gold=gold))
    return cg.EvalSet(id="grid", items=tuple(items))


def main() -> None:
    """Run the three configurations and print the metrics as JSON."""
    folder, model, cache, k = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    given = read(folder)
    embedder = Local(model)
    cg.EMBEDDERS.register("local")(lambda: embedder)
    configurations = {
        "bm25": (None, "bm25:1.2,b=0.75"),
        "minilm": ("local", "dense"),
        "hybrid": ("local", f"hybrid:rrf,rrf_k={k},k1=1.2,b=0.75"),
    }
    runner = cg.Runner(
        corpus=cg.Corpus.from_texts(given.documents),
        cache=cg.DiskCache(root=cache),
        ks=TOP_K,
        headline="ndcg@10",
    )
    asked, found = spans(given), {}
    for name, (embedded, index) in configurations.items():
        config = cg.Config(
            parser="text", chunker="fixed:100000", embedder=embedded, index=index, k=DEPTH
        )
        metrics = runner.run_one(config, asked).metrics
        found[name] = {
            f"{ours}@{cut}": metrics[f"{theirs}@{cut}"]
            for ours, theirs in MEASURES.items()
            for cut in TOP_K
        }
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
