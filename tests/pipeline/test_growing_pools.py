"""Metrics that may fall as k grows where the pool grows with k, and never where it is fixed.

Published results have it: for 5 of the 22 files of percent4/embedding_rerank_retrieval mrr falls.
"""

from __future__ import annotations

import random
from pathlib import Path

from rag_assets.evaluation.metrics_stage import metrics_key
from tests.tiny_experiment import DOCUMENTS, Tiny

TOP_K = (1, 2, 3, 4, 5)


def tiny_of(root: Path, first: list[str], second: list[str]) -> Tiny:
    """Two runs that rank the documents so for every question, and both fusions of them."""
    tiny = Tiny(root)
    tiny.config["dataset"]["judge"] = "document"
    tiny.config |= {"top_k": list(TOP_K), "metrics": ["hit_rate", "mrr", "recall"]}
    tiny.config |= {"primary": "mrr@5", "baseline": "first"}
    fused = {"type": "rrf", "inputs": ["first", "second"]}
    tiny.config["retrievers"] = {
        "first": {"type": "run_file", "chunking": "whole", "path": "first.txt"},
        "second": {"type": "run_file", "chunking": "whole", "path": "second.txt"},
        "growing": {**fused, "candidates": "top_k"},
        "fixed": {**fused, "candidates": 8},
    }
    tiny.write()
    for name, ids in (("first", first), ("second", second)):
        lines = [
            f"q{query} Q0 {one} {rank} {-rank} run\n"
            for query in range(1, 7)
            for rank, one in enumerate(ids, 1)
        ]
        (tiny.folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    return tiny


def means(tiny: Tiny, retriever: str, name: str) -> list[float]:
    """The metric of the first question, q1, at each cut-off."""
    pipeline = tiny.pipeline()
    tables = [pipeline.artifact(metrics_key(retriever, k)).table() for k in TOP_K]
    return [row[name] for table in tables for row in table.to_pylist() if row["query_id"] == "q1"]


def test_mrr_falls_where_the_pool_grows(tmp_path: Path) -> None:
    """At 1 the relevant document ties with another; at 2 one that both lists have overtakes it."""
    rest = ["harbours.md", "timetable.md", "lost.md"]
    first = ["fares.md", "engines.md", *rest]
    second = ["crew.md", "engines.md", *reversed(rest)]
    tiny = tiny_of(tmp_path / "tiny", first, second)
    tiny.run()
    assert means(tiny, "growing", "mrr")[:2] == [1, 0.5]
    for name in ("hit_rate", "mrr", "recall"):
        values = means(tiny, "fixed", name)
        assert values == sorted(values)


def test_nothing_falls_where_the_pool_is_fixed(tmp_path: Path) -> None:
    drawn = random.Random(0)
    first, second = (drawn.sample(sorted(DOCUMENTS), len(DOCUMENTS)) for _ in range(2))
    tiny = tiny_of(tmp_path / "tiny", first, second)
    tiny.run()
    for name in ("hit_rate", "mrr", "recall"):
        values = means(tiny, "fixed", name)
        assert values == sorted(values), name
