"""Reranking by late interaction (MaxSim) over the token vectors of any bi-encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rag_assets.models.max_sim import maxsim
from rag_assets.models.token_encoder import TokenEncoder
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.store.token_vector_cache import TokenVectors

BLOCK = 64
"""Queries whose documents are looked up at once."""

KEPT_BYTES = 512 * 2**20
"""Token vectors of documents that stay in memory between blocks."""


def rerank_by_maxsim(
    candidates: Sequence[Candidates],
    encoder: TokenEncoder,
    progress: Callable[[int], None] | None = None,
) -> list[Scores]:
    """Return the MaxSim score of every candidate of every query.

    Args:
        candidates: of each query.
        encoder: gives token vectors.
        progress: called with the number of queries done so far.

    Raises:
        ModelUnavailable: the model cannot be loaded.
    """
    queries = encoder.encode([one.query for one in candidates], kind="query")
    kept: dict[str, TokenVectors] = {}
    scores: list[Scores] = []
    for start in range(0, len(candidates), BLOCK):
        block = candidates[start : start + BLOCK]
        wanted = dict.fromkeys(text for one in block for text in one.texts)
        unknown = [text for text in wanted if text not in kept]
        kept |= encoder.encode(unknown, kind="document") if unknown else {}
        for one in block:
            own = queries[one.query]
            scores.append(np.array([maxsim(own, kept[text]) for text in one.texts]))
        if sum(vectors.nbytes for vectors in kept.values()) > KEPT_BYTES:
            kept = {}
        if progress is not None:
            progress(len(scores))
    return scores
