"""An experiment of any size: words by Zipf's law, queries of words of one document, and vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from zipf_corpus import write_corpus

SEED = 0
DIMENSION, NOISE = 32, 0.15


@dataclass(frozen=True)
class Size:
    """How large an experiment is.

    Attributes:
        documents: of 40 words each.
        queries: each with one relevant document.
        retrievers: the first is lexical; with ``vectors`` the second searches vectors; the others
            are lexical with parameters of their own.
        top_k: how many cut-offs: 1, 2, 3 ...; of one alone it is 10.
        vectors: whether one retriever searches vectors.
    """

    documents: int = 1000
    queries: int = 100
    retrievers: int = 2
    top_k: int = 1
    vectors: bool = True


def write_experiment(folder: Path, size: Size) -> None:
    """Write documents, queries, labels, vectors and ``experiment.yaml`` into a new folder."""
    chance = np.random.default_rng(SEED)
    corpus = write_corpus(folder, size.documents, size.queries, chance)
    vectors = chance.normal(size=(size.documents, DIMENSION)).astype(np.float32)
    noise = chance.normal(scale=NOISE * DIMENSION**0.5, size=(1, DIMENSION))
    _write_vectors(folder, "chunks", corpus.ids, vectors)
    near = (vectors[corpus.targets] + noise).astype(np.float32)
    _write_vectors(folder, "queries", corpus.queries, near)
    config = configuration(folder.name, size)
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")


def configuration(name: str, size: Size) -> dict[str, Any]:
    """Return the experiment on it."""
    found = [
        {"type": "bm25", "chunking": "whole", "analyzer": "whitespace", "k1": 0.5 + number / 50}
        for number in range(size.retrievers)
    ]
    if size.vectors and size.retrievers > 1:
        found[1] = {
            "type": "vectors",
            "chunking": "whole",
            "chunk_vectors": "chunks.npy",
            "chunk_ids": "chunks.txt",
            "query_vectors": "queries.npy",
            "query_ids": "queries.txt",
        }
    top_k = [10] if size.top_k == 1 else list(range(1, size.top_k + 1))
    return {
        "name": name,
        "dataset": {"format": "jsonl", "judge": "document"},
        "chunking": {"whole": {"strategy": "none"}},
        "retrievers": {f"r{number}": options for number, options in enumerate(found)},
        "top_k": top_k,
        "metrics": ["hit_rate", "mrr", "ndcg", "recall"],
        "primary": f"ndcg@{top_k[-1]}",
    }


def _write_vectors(
    folder: Path, name: str, ids: Sequence[str], vectors: npt.NDArray[np.float32]
) -> None:
    np.save(folder / f"{name}.npy", vectors)
    (folder / f"{name}.txt").write_text("\n".join(ids), encoding="utf-8")
