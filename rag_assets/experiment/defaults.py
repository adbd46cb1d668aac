"""What an experiment does when its YAML, or the whole file, is silent."""

from __future__ import annotations

from typing import Any

from rag_assets.chunking.chunker import CHUNKING_TYPES
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.experiment.config import ChunkingConfig, RetrieverConfig
from rag_assets.retrieval.registry import OWN_TYPES
from rag_assets.sources.dataset import Dataset


def default_chunkings(dataset: Dataset) -> dict[str, ChunkingConfig]:
    """Return one chunking: none where the data is judged as it stands, else recursive 200/30."""
    if dataset.default_chunking == "none":
        return {"whole": CHUNKING_TYPES["none"](strategy="none")}
    return {"sections_200": CHUNKING_TYPES["recursive"](strategy="recursive")}


def default_retrievers() -> dict[str, RetrieverConfig]:
    """Return BM25, MiniLM, their reciprocal rank fusion, and a reranking of its first 20.

    Late interaction needs no weights but MiniLM's. It reads the fusion, because that holds what
    either of the others finds: a reranker cannot bring back what its input has missed.
    """
    blocks: dict[str, dict[str, Any]] = {
        "bm25": {"type": "bm25"},
        "minilm": {"type": "embedding"},
        "hybrid": {"type": "rrf", "inputs": ["bm25", "minilm"]},
        "maxsim": {"type": "maxsim", "input": "hybrid", "candidates": 20},
    }
    return {name: OWN_TYPES[block["type"]](**block) for name, block in blocks.items()}


def default_primary(
    measures: tuple[str, ...], extra: tuple[Metric, ...], top_k: tuple[int, ...]
) -> Metric:
    """Return ndcg@10, or the nearest to it that the experiment computes.

    Args:
        measures: computed at each top_k.
        extra: metrics with a cut-off of their own; the first is primary when there is no other.
        top_k: the cut-offs of ``measures``.
    """
    if not measures:
        return extra[0]
    measure = "ndcg" if "ndcg" in measures else measures[0]
    return parse_metric(measure)._replace(cutoff=10 if 10 in top_k else max(top_k))
