"""Fixtures for all tests: real data where it is there, and no network."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]

os.environ.setdefault("HF_HUB_OFFLINE", "1")

# How long an example takes says nothing about its result.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Return a function that gives the folder of a real data set, or skips with a reason.

    The folders lie below ``RAG_ASSETS_SHARED_DATA``, or ``../shared/data`` beside the repository.
    """
    root = Path(os.environ.get("RAG_ASSETS_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")

    def find(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            pytest.skip(f"real data '{name}' is not there (set RAG_ASSETS_SHARED_DATA)")
        return folder

    return find
