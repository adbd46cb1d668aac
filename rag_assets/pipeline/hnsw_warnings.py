"""Graphs of vectors that give fewer results than are read of them."""

from __future__ import annotations

from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.dense.embedding import BiEncoder


def hnsw_warnings(experiment: Experiment) -> list[str]:
    """Return a line for each ``index: hnsw`` whose ``ef_search`` is below what is read."""
    lines = []
    for name, config in experiment.retrievers.items():
        if not isinstance(config, BiEncoder) or config.hnsw is None:
            continue
        looked_at, read = config.hnsw.ef_search, experiment.depth(name)
        if looked_at < read:
            lines.append(
                f"{name}: hnsw.ef_search {looked_at} is below {read}, the largest top_k or "
                f"candidates that reads it; no query has more than {looked_at} results"
            )
    return lines
