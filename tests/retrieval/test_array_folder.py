from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import StoreError
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder
from rag_assets.retrieval.dense.vector_index import VectorIndex


def test_texts_and_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    files, ids = ArrayFolder(tmp_path), ["b", 'with "quotes"', "ä/1"]
    assert files.save(chunk_ids=ids, numbers=np.arange(3, dtype=np.int32)) == 12
    assert files.texts(CHUNK_IDS) == ids
    assert files.array("numbers").tolist() == [0, 1, 2]
    assert "ä" in (tmp_path / "chunk_ids.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ['{"a": 1}', '"abc"', "[1", ""])
def test_what_is_no_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "chunk_ids.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"JSON list|Expecting"):
        VectorIndex.load(tmp_path)
