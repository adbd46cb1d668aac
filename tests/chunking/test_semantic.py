from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assets.chunking import semantic
from rag_assets.chunking.chunker import Size
from rag_assets.chunking.semantic import breakpoints
from rag_assets.models.encoder import Encoder

TEXT = (
    "The ferry leaves the harbour at six. The boat sails to the northern port. The ship returns in "
    "the evening. Photosynthesis turns light into sugar. Plants take carbon dioxide from the air. "
    "Leaves are green because of chlorophyll."
)


def test_breakpoints_are_above_the_percentile() -> None:
    angles = np.radians([0, 5, 90, 95, 100])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert breakpoints(vectors, 50) == [1]
    assert breakpoints(vectors[:2], 50) == []
    assert breakpoints(vectors[:1], 50) == []
    assert breakpoints(np.repeat(vectors[:1], 4, axis=0), 50) == []


@pytest.mark.parametrize("buffer", [0, 1])
def test_the_model_finds_the_change_of_subject(buffer: int, tmp_path: Path) -> None:
    encoder = Encoder(cache=tmp_path)
    cut = semantic.cutter(
        lambda texts: encoder.encode(texts, kind="document"),
        percentile=80,
        buffer=buffer,
        language="en",
    )
    [pieces] = cut([TEXT])
    change = TEXT.index("Photosynthesis")
    assert len(pieces) == 2
    # Windows of several sentences blur the place of the change.
    assert (
        sum(
            TEXT[min(change, p.start) : max(change, p.start)].count(".") <= buffer
            for p in pieces[1:]
        )
        == 1
    )
    again = Encoder(cache=tmp_path)
    cached = semantic.cutter(
        lambda texts: again.encode(texts, kind="document"),
        percentile=80,
        buffer=buffer,
        language="en",
    )
    assert list(cached([TEXT, ""])) == [pieces, []]
    assert "_model" not in vars(again)


def test_a_large_chunk_is_cut_further() -> None:
    def alike(texts: object) -> np.ndarray:
        assert isinstance(texts, list)
        return np.tile(np.array([[1, 0]], dtype=np.float32), (len(texts), 1))

    for limit, count in ((None, 1), (Size(80), 4)):
        cut = semantic.cutter(alike, percentile=95, buffer=1, language="en", limit=limit)
        [pieces] = cut([TEXT])
        assert len(pieces) == count
