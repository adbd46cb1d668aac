"""Late interaction (MaxSim) over the token vectors of any bi-encoder.

Khattab and Zaharia: ColBERT, SIGIR 2020: every query token takes the most similar token of the
document. The score here is the mean, over the query tokens, of that highest cosine, so that scores
of queries of different lengths have the same range. A query or document without a token scores -1,
below every other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rag_assets.embedding.token_encoder import TokenEncoder
from rag_assets.reranking.candidates import Candidates, Scores
from rag_assets.store.token_vector_cache import TokenVectors

BLOCK = 64
"""Queries whose documents are looked up at once."""

KEPT_BYTES = 512 * 2**20
"""Token vectors of documents that stay in memory between blocks."""

NOTHING = -1.0


def maxsim(query: TokenVectors, document: TokenVectors) -> float:
    """Return the mean over query tokens of the highest cosine with a document token.

    Args:
        query: unit vectors, shape (query tokens, dimension).
        document: unit vectors, shape (document tokens, dimension).
    """
    if not len(query) or not len(document):
        return NOTHING
    cosines = query.astype(np.float32) @ document.astype(np.float32).T
    return float(cosines.max(axis=1).astype(np.float64).mean())


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
