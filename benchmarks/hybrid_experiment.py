"""The experiment of the part ``corpus`` of ``incremental.py``: words, vectors, and their fusion."""

from __future__ import annotations

import json
from pathlib import Path


def write_config(folder: Path, model: str, k: int) -> None:
    """Write ``experiment.yaml``; ``k`` is that of the fusion."""
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
