"""An experiment over words by Zipf's law: the part ``corpus`` of ``incremental.py``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

N_WORDS, N_QUERIES, SEED = 40, 200, 0
VOCABULARY, EXPONENT = 20_000, 1.1


def write_corpus(folder: Path, n_documents: int) -> None:
    """Write documents of words by Zipf's law, and queries of words of one of them each."""
    chance = np.random.default_rng(SEED)
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(chance.choice(syllables, size=3)) for _ in range(VOCABULARY)]
    weights = 1 / np.arange(1, VOCABULARY + 1) ** EXPONENT
    drawn = chance.choice(VOCABULARY, size=(n_documents, N_WORDS), p=weights / weights.sum())
    folder.mkdir(parents=True)
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as file:
        for number, row in enumerate(drawn):
            text = " ".join(words[word] for word in row)
            file.write(json.dumps({"id": f"d{number:07d}", "text": f"{text}."}) + "\n")
    queries, labels = [], []
    for number, target in enumerate(chance.choice(n_documents, size=N_QUERIES, replace=False)):
        asked = " ".join(words[word] for word in sorted(set(drawn[target]))[-5:])
        queries.append({"query_id": f"q{number}", "text": asked})
        labels.append({"query_id": f"q{number}", "doc_id": f"d{target:07d}"})
    for name, rows in (("queries", queries), ("judgments", labels)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def write_config(folder: Path, model: str, k: int) -> None:
    """Write the experiment on the corpus."""
    config = {
        "name": "corpus",
        "dataset": {"format": "jsonl", "judge": "document"},
        "chunking": {"whole": {"strategy": "none"}},
        "retrievers": {
            "bm25": {"type": "bm25", "chunking": "whole", "analyzer": "whitespace"},
            "dense": {"type": "embedding", "chunking": "whole", "model": model},
            "hybrid": {"type": "rrf", "inputs": ["bm25", "dense"], "k": k},
        },
        "top_k": [10],
        "metrics": ["ndcg", "recall"],
        "primary": "ndcg@10",
    }
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")
