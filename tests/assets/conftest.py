from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.pipeline.registry import register
from tests.dagster_state import evaluate_now
from tests.tiny_experiment import Tiny


@pytest.fixture(scope="session")
def assets_master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment, evaluated once; tests get copies."""
    tiny = Tiny(tmp_path_factory.mktemp("assets") / "master").write()
    evaluate_now(tiny)
    return tiny


@pytest.fixture
def tiny(assets_master: Tiny, tmp_path: Path) -> Tiny:
    """The experiment as it is after one evaluation, with its Dagster instance."""
    return assets_master.copy_to(tmp_path / "tiny")


@pytest.fixture
def fresh(tmp_path: Path) -> Tiny:
    """The experiment with an empty store."""
    return Tiny(tmp_path / "fresh").write()


@pytest.fixture
def small(fresh: Tiny) -> Tiny:
    """One retriever, one cut-off: what is waited for is Dagster, not the evaluation."""
    fresh.config["retrievers"] = {"bm25": {"type": "bm25", "chunking": "parts"}}
    fresh.config |= {"top_k": [5], "chunking": {"parts": {"strategy": "none"}}}
    fresh.write_config()
    register(fresh.pipeline().experiment, fresh.settings)
    return fresh
