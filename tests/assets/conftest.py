from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
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


@pytest.fixture(params=["kept", "dagster's"])
def either_storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the storage that stays open, and with that of Dagster itself."""
    if request.param != "kept":
        monkeypatch.setattr(dagster_instance, "TESTED_WITH", "another")


@pytest.fixture(scope="session")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[int, ...]], Tiny]:
    @cache
    def made(top_k: tuple[int, ...]) -> Tiny:
        tiny = Tiny(tmp_path_factory.mktemp("assets") / "master")
        tiny.config["top_k"] = [*top_k]
        evaluate_now(tiny.write())
        return tiny

    return made


@pytest.fixture(scope="module")
def assets_master(masters: Callable[[tuple[int, ...]], Tiny], cutoffs: tuple[int, ...]) -> Tiny:
    return masters(cutoffs)


@pytest.fixture
def tiny(assets_master: Tiny, tmp_path: Path) -> Tiny:
    """The experiment as it is after one evaluation, with its Dagster instance."""
    return assets_master.copy_to(tmp_path / "tiny")


@pytest.fixture
def small(fresh: Tiny) -> Tiny:
    """One retriever, one cut-off: what is waited for is Dagster, not the evaluation."""
    fresh.config["retrievers"] = {"bm25": {"type": "bm25", "chunking": "parts"}}
    fresh.config |= {"top_k": [5], "chunking": {"parts": {"strategy": "none"}}}
    fresh.write_config()
    register(fresh.pipeline().experiment, fresh.settings)
    return fresh
