from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_experiment import MINILM, Tiny


@pytest.fixture(scope="session")
def pipeline_master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment, computed once; tests get copies."""
    tiny = Tiny(tmp_path_factory.mktemp("pipeline") / "master").write()
    tiny.run()
    tiny.snapshot()
    return tiny


@pytest.fixture
def tiny(pipeline_master: Tiny, tmp_path: Path) -> Tiny:
    """The experiment with everything up to date and a snapshot."""
    return pipeline_master.copy_to(tmp_path / "tiny")


@pytest.fixture
def fresh(tmp_path: Path) -> Tiny:
    """The experiment with an empty store."""
    return Tiny(tmp_path / "fresh").write()


@pytest.fixture
def with_minilm(tmp_path: Path) -> Tiny:
    """A small experiment with an embedding model, with an empty store; costs seconds."""
    tiny = Tiny(tmp_path / "minilm")
    kept = tiny.config["retrievers"]["bm25-whole"]
    tiny.config["retrievers"] = {"bm25-whole": kept, **MINILM}
    tiny.config["baseline"] = "bm25-whole"
    return tiny.write()


@pytest.fixture
def one(tmp_path: Path) -> Tiny:
    """Two retrievers, one cut-off."""
    tiny = Tiny(tmp_path / "one")
    kept = ("bm25", "bm25-whole")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in kept}
    tiny.config |= {"top_k": [1], "primary": "mrr@1", "metrics": ["mrr"]}
    return tiny.write()
