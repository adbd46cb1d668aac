from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.assets import instance as dagster_instance
from rag_assets.pipeline.evaluation_names import register
from tests.dagster_state import evaluate_now
from tests.tiny_experiment import Tiny

ON_ITS_OWN = "TESTS_ON_DAGSTERS_STORAGE"
"""Environment variable: all tests here run on Dagster's own storage."""


@pytest.fixture(scope="session", autouse=True)
def _storage_of_all() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get(ON_ITS_OWN):
            patch.setattr(dagster_instance, "TESTED_WITH", "another")
        yield


@pytest.fixture(scope="session")
def assets_master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("assets") / "master")
    tiny.config["top_k"] = [1, 3, 5]
    evaluate_now(tiny.write())
    return tiny


@pytest.fixture
def tiny(assets_master: Tiny, tmp_path: Path) -> Tiny:
    """The experiment as it is after one evaluation, with its Dagster instance."""
    return assets_master.copy_to(tmp_path / "tiny")


def lexical(root: Path) -> Tiny:
    """Two retrievers and their fusion, at two cut-offs: fewer partitions, and as many assets."""
    tiny = Tiny(root)
    kept = {name: tiny.config["retrievers"][name] for name in ("bm25", "bm25-whole", "hybrid")}
    tiny.config |= {"retrievers": kept, "top_k": [1, 3], "primary": "ndcg@3"}
    return tiny.write()


@pytest.fixture(scope="session")
def lexical_master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = lexical(tmp_path_factory.mktemp("lexical") / "master")
    evaluate_now(tiny)
    return tiny


@pytest.fixture
def few(lexical_master: Tiny, tmp_path: Path) -> Tiny:
    """The smaller experiment as it is after one evaluation."""
    return lexical_master.copy_to(tmp_path / "tiny")


@pytest.fixture
def small(fresh: Tiny) -> Tiny:
    """One retriever, one cut-off: what is waited for is Dagster, not the evaluation."""
    fresh.config["retrievers"] = {"bm25": {"type": "bm25", "chunking": "parts"}}
    fresh.config |= {"top_k": [5], "chunking": {"parts": {"strategy": "none"}}}
    fresh.write_config()
    register(fresh.pipeline().experiment, fresh.settings)
    return fresh
