from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.evaluation.list_similarities_stage import intra_list_similarity
from rag_assets.models.vectors import to_unit_rows

VECTORS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.0, 1.0]], dtype=np.float32)


def test_the_mean_cosine_of_all_pairs_of_the_first_k() -> None:
    assert intra_list_similarity(VECTORS, 2) == pytest.approx(0.6)
    assert intra_list_similarity(VECTORS, 3) == pytest.approx((0.6 + 0.0 + 0.8) / 3)
    six = (0.6 + 0.0 + 0.0 + 0.8 + 0.8 + 1.0) / 6
    assert intra_list_similarity(VECTORS, 4) == pytest.approx(six)
    assert intra_list_similarity(VECTORS, 9) == intra_list_similarity(VECTORS, 4)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9))
def test_it_is_what_a_loop_over_the_pairs_gives(seed: int, n: int) -> None:
    unit = to_unit_rows(np.random.default_rng(seed).normal(size=(n, 4)), str)
    wide = unit.astype(np.float64)
    cosines = [float(one @ other) for one, other in combinations(wide, 2)]
    assert intra_list_similarity(unit, n) == pytest.approx(np.mean(cosines), abs=1e-12)


def test_a_single_result_has_no_pair() -> None:
    assert intra_list_similarity(VECTORS, 1) is None
    assert intra_list_similarity(VECTORS[:0], 5) is None
