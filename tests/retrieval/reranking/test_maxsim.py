from __future__ import annotations

import numpy as np
import pytest

from rag_assets.models.cache_fill import TokenVectors
from rag_assets.retrieval.reranking.local import NOTHING, maxsim

DOCUMENTS = [
    "The southern harbour closes when the wind exceeds 25 metres per second.",
    "A dog needs a ticket of 10 crowns.",
    "",
]


def vectors(*rows: list[float]) -> TokenVectors:
    return np.array(rows, dtype=np.float16).reshape(len(rows), -1)


def test_the_mean_of_the_best_cosines() -> None:
    query = vectors([1, 0], [0, 1])
    document = vectors([0.6, 0.8], [1, 0], [-1, 0])
    # First token: max(.6, 1, -1) = 1; second: max(.8, 0, 0) = .8 (half precision: .7998).
    assert maxsim(query, document) == pytest.approx((1 + 0.8) / 2, abs=1e-3)


def test_nothing_to_compare_scores_below_every_cosine() -> None:
    some = vectors([1, 0])
    none = np.empty((0, 2), dtype=np.float16)
    assert maxsim(some, none) == maxsim(none, some) == NOTHING
    assert maxsim(some, vectors([-1, 0])) >= NOTHING
