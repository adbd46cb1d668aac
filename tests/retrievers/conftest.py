from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_experiment import Tiny


@pytest.fixture
def bm25_only(tmp_path: Path) -> Tiny:
    """One retriever, with an empty store."""
    tiny = Tiny(tmp_path / "bm25")
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.config |= {"top_k": [1, 3, 50], "primary": "ndcg@3"}
    return tiny.write()
