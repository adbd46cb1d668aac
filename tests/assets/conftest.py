from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rag_assets.pipeline.registry import register
from tests.dagster_state import evaluate_now
from tests.tiny_experiment import Tiny


@pytest.fixture(scope="session")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[int, ...]], Tiny]:
    """Return a function that gives the experiment with some cut-offs, evaluated once."""

    @cache
    def made(top_k: tuple[int, ...]) -> Tiny:
        tiny = Tiny(tmp_path_factory.mktemp("assets") / "master")
        tiny.config["top_k"] = [*top_k]
        evaluate_now(tiny.write())
        return tiny

    return made


@pytest.fixture(scope="module")
def assets_master(masters: Callable[[tuple[int, ...]], Tiny], cutoffs: tuple[int, ...]) -> Tiny:
    """The experiment, evaluated once; tests get copies."""
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
