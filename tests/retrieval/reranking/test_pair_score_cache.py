from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assets.models.cache_fill import ValueCache
from rag_assets.retrieval.reranking.candidates import PAIR_SCORES, Pair, pair_keys

PAIRS = [Pair("q", "a"), Pair("q", "b"), Pair("r", "a")]
SCORES = np.array([0.1, -1e300, 5e-324])


def test_scores_come_back_bit_by_bit(tmp_path: Path) -> None:
    ValueCache(tmp_path, PAIR_SCORES).put(pair_keys("one", PAIRS), SCORES)
    wanted = pair_keys("one", [PAIRS[2], Pair("q", "c"), *PAIRS])
    scores, is_known = ValueCache(tmp_path, PAIR_SCORES).get(wanted)
    assert scores is not None
    assert scores[[0, 2, 3, 4]].tobytes() == SCORES[[2, 0, 1, 2]].tobytes()
    assert is_known.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize(
    "other", [Pair("a", "q"), Pair("qa", ""), Pair("", "qa"), Pair("q\0a", ""), Pair("q", "a ")]
)
def test_no_two_pairs_share_a_key(other: Pair) -> None:
    assert pair_keys("one", [Pair("q", "a")]) != pair_keys("one", [other])


def test_scorers_share_a_folder_and_no_score() -> None:
    assert pair_keys("one", PAIRS) != pair_keys("other", PAIRS)


def test_a_key_is_as_it_always_was() -> None:
    """What a server was paid for is found by it."""
    (key,) = pair_keys("0" * 64, [Pair("wind", "a dog")]).to_pylist()
    assert key.hex() == "e07776e213ecba590bd1c9a1c48a53b1461d2a5d1b11a25c1317f929c2714184"
