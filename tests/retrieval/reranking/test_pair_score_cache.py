from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import DataError
from rag_assets.retrieval.reranking.candidates import Pair
from rag_assets.retrieval.reranking.pair_scores import PairScoreCache

PAIRS = [Pair("q", "a"), Pair("q", "b"), Pair("r", "a")]
SCORES = np.array([0.1, -1e300, 5e-324])


def test_scores_come_back_bit_by_bit(tmp_path: Path) -> None:
    PairScoreCache(tmp_path, "one").put(PAIRS, SCORES)
    scores = PairScoreCache(tmp_path, "one").get([PAIRS[2], Pair("q", "c"), *PAIRS])
    assert scores[[0, 2, 3, 4]].tobytes() == SCORES[[2, 0, 1, 2]].tobytes()
    assert np.isnan(scores[1])


@pytest.mark.parametrize(
    "other", [Pair("a", "q"), Pair("qa", ""), Pair("", "qa"), Pair("q\0a", ""), Pair("q", "a ")]
)
def test_no_two_pairs_share_a_key(tmp_path: Path, other: Pair) -> None:
    cache = PairScoreCache(tmp_path, "one")
    cache.put([Pair("q", "a")], np.array([1.0]))
    assert np.isnan(cache.get([other])).all()


def test_scorers_share_a_folder_and_no_score(tmp_path: Path) -> None:
    PairScoreCache(tmp_path, "one").put(PAIRS, SCORES)
    assert np.isnan(PairScoreCache(tmp_path, "other").get(PAIRS)).all()


def test_the_first_score_stays(tmp_path: Path) -> None:
    cache = PairScoreCache(tmp_path, "one")
    cache.put(PAIRS[:1], np.array([1.0]))
    cache.put(PAIRS[:2], np.array([2.0, 3.0]))
    assert cache.get(PAIRS[:2]).tolist() == [1.0, 3.0]


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    cache = PairScoreCache(tmp_path, "one")
    cache.put(PAIRS, SCORES)
    files = sorted(tmp_path.iterdir())
    cache.put(PAIRS, SCORES)
    cache.put([], np.empty(0))
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize("wrong", [[1.0, np.nan, 1.0], [1.0, np.inf, 1.0]])
def test_what_is_no_number_is_not_kept(tmp_path: Path, wrong: list[float]) -> None:
    with pytest.raises(DataError, match="NaN or infinite"):
        PairScoreCache(tmp_path, "one").put(PAIRS, np.array(wrong))


def test_a_damaged_segment_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    PairScoreCache(tmp_path, "one").put(PAIRS, SCORES)
    (segment,) = tmp_path.iterdir()
    segment.write_bytes(b"PAR1 no more")
    assert np.isnan(PairScoreCache(tmp_path, "one").get(PAIRS)).all()
    assert "cache: segment" in caplog.text
