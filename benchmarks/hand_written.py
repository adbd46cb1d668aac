"""The script that an engineer would write to compare three retrievers; a contender of ``grid.py``.

    python benchmarks/hand_written.py FOLDER MODEL 60

Straight from libraries: bm25s, ``SentenceTransformer.encode``, faiss, reciprocal rank fusion in a
few lines, pytrec_eval. It keeps nothing: whatever changes, it computes everything again.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import bm25s
import faiss
import numpy as np
import pytrec_eval
import Stemmer
from grid_input import DEPTH, TOP_K, Input, read
from sentence_transformers import SentenceTransformer

Run = dict[str, dict[str, float]]

MEASURES = {
    "hit_rate": "success",
    "ndcg": "ndcg_cut",
    "recall": "recall",
    "precision": "P",
    "map": "map_cut",
}


def by_bm25(given: Input) -> Run:
    """Search by words."""
    stemmer, names = Stemmer.Stemmer("english"), list(given.documents)

    def tokens(texts: list[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index(tokens(list(given.documents.values())), show_progress=False)
    depth = min(DEPTH, len(names))
    found, scores = index.retrieve(
        tokens(list(given.queries.values())), k=depth, show_progress=False
    )
    return {
        query: {names[i]: float(s) for i, s in zip(*row, strict=True) if s > 0}
        for query, *row in zip(given.queries, found, scores, strict=True)
    }


def by_vectors(given: Input, model: str) -> Run:
    """Search by embeddings, exactly."""
    encoder, names = SentenceTransformer(model), list(given.documents)
    vectors = encoder.encode(list(given.documents.values()), normalize_embeddings=True)
    asked = encoder.encode(list(given.queries.values()), normalize_embeddings=True)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    scores, found = index.search(np.ascontiguousarray(asked), min(DEPTH, len(names)))
    return {
        query: {names[i]: float(s) for i, s in zip(*row, strict=True)}
        for query, *row in zip(given.queries, found, scores, strict=True)
    }


def fused(runs: list[Run], k: int) -> Run:
    """Reciprocal rank fusion."""
    found: Run = {}
    for run in runs:
        for query, scores in run.items():
            own = found.setdefault(query, {})
            for rank, name in enumerate(sorted(scores, key=scores.__getitem__, reverse=True), 1):
                own[name] = own.get(name, 0.0) + 1 / (k + rank)
    return {
        query: dict(sorted(own.items(), key=lambda x: -x[1])[:DEPTH])
        for query, own in found.items()
    }


def means(run: Run, qrels: dict[str, dict[str, int]]) -> dict[str, float]:
    """Return ``measure@k`` -> mean."""
    cuts = ",".join(map(str, TOP_K))
    names = {f"{theirs}.{cuts}" for theirs in MEASURES.values()} | {"recip_rank"}
    values = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run).values()
    found = {}
    for k in TOP_K:
        for ours, theirs in MEASURES.items():
            found[f"{ours}@{k}"] = statistics.fmean(one[f"{theirs}_{k}"] for one in values)
        ranks = [one["recip_rank"] for one in values]
        found[f"mrr@{k}"] = statistics.fmean(r if r >= 1 / k - 1e-9 else 0.0 for r in ranks)
    return found


def evaluated(folder: Path, model: str, k: int) -> dict[str, dict[str, float]]:
    """Search in three ways and return the metrics of each."""
    given = read(folder)
    bm25, minilm = by_bm25(given), by_vectors(given, model)
    runs = {"bm25": bm25, "minilm": minilm, "hybrid": fused([bm25, minilm], k)}
    return {name: means(run, given.qrels) for name, run in runs.items()}


def main() -> None:
    """Print the metrics as JSON."""
    found = evaluated(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
