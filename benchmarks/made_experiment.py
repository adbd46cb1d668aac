"""An experiment of any size: words by Zipf's law, queries of words of one document, and vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SEED = 0
WORDS, VOCABULARY, ZIPF = 40, 20_000, 1.1
ASKED = 5
"""Words of a query: the rarest of its document."""

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
    folder.mkdir(parents=True)
    chance = np.random.default_rng(SEED)
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(chance.choice(syllables, size=3)) for _ in range(VOCABULARY)]
    weights = 1 / np.arange(1, VOCABULARY + 1) ** ZIPF
    drawn = chance.choice(VOCABULARY, size=(size.documents, WORDS), p=weights / weights.sum())
    ids = [f"d{number:07d}" for number in range(size.documents)]
    texts = (" ".join(words[word] for word in row) for row in drawn)
    _write_rows(
        folder / "documents.jsonl",
        [{"id": name, "text": f"{text}."} for name, text in zip(ids, texts, strict=True)],
    )
    targets = chance.integers(0, size.documents, size=size.queries)
    names = [f"q{number:06d}" for number in range(size.queries)]
    asked = [" ".join(words[word] for word in sorted(set(drawn[t]))[-ASKED:]) for t in targets]
    _write_rows(
        folder / "queries.jsonl",
        [{"query_id": name, "text": text} for name, text in zip(names, asked, strict=True)],
    )
    _write_rows(
        folder / "judgments.jsonl",
        [{"query_id": q, "doc_id": ids[t]} for q, t in zip(names, targets, strict=True)],
    )
    vectors = chance.normal(size=(size.documents, DIMENSION)).astype(np.float32)
    near = vectors[targets] + chance.normal(scale=NOISE * DIMENSION**0.5, size=(1, DIMENSION))
    _write_vectors(folder, "chunks", ids, vectors)
    _write_vectors(folder, "queries", names, near.astype(np.float32))
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


def _write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_vectors(
    folder: Path, name: str, ids: Sequence[str], vectors: npt.NDArray[np.float32]
) -> None:
    np.save(folder / f"{name}.npy", vectors)
    (folder / f"{name}.txt").write_text("\n".join(ids), encoding="utf-8")
