from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.errors import StoreError
from rag_assets.retrieval.dense.flat_index import IDS_FILE, FlatIndex, load_ids, save_ids


def test_ids_come_back_in_their_order(tmp_path: Path) -> None:
    save_ids(("b", 'with "quotes"', "ä/1"), tmp_path)
    assert load_ids(tmp_path) == ("b", 'with "quotes"', "ä/1")
    assert "ä" in (tmp_path / IDS_FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ['{"a": 1}', '"abc"', "[1", ""])
def test_what_is_no_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / IDS_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"JSON list|Expecting"):
        load_ids(tmp_path)
    with pytest.raises(StoreError, match="cannot be read"):
        FlatIndex.load(tmp_path)
