from __future__ import annotations

from pathlib import Path

import pytest

from tests.static_model import save_static_model
from tests.tiny_experiment import DOCUMENTS, Tiny


@pytest.fixture
def bm25_only(tmp_path: Path) -> Tiny:
    """One retriever, with an empty store."""
    tiny = Tiny(tmp_path / "bm25")
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.config |= {"top_k": [1, 3, 50], "primary": "ndcg@3"}
    return tiny.write()


@pytest.fixture(scope="session")
def static_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A StaticEmbedding as model2vec and WordLlama publish it: a table of word vectors, no more."""
    return save_static_model(tmp_path_factory.mktemp("static"), DOCUMENTS.values())
