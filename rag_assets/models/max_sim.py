"""Late interaction of two texts (MaxSim): every token of the query takes its best of the document.

Khattab and Zaharia: ColBERT, SIGIR 2020. The score here is the mean, over the query tokens, of that
highest cosine, so that scores of queries of different lengths have the same range; of one query, it
orders documents as the sum does.
"""

from __future__ import annotations

import numpy as np

from rag_assets.store.token_vector_cache import TokenVectors

NOTHING = -1.0
"""The score of a query or document without a token: below every other."""


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
