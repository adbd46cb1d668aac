"""The package as a release builds it, once for all tests of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environments import build, need_index, source_tree

FORGE = "https://forge.invalid/owner/name"


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources."""
    need_index()
    return source_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="session")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the sdist and the wheel, as a forge builds them."""
    out = tmp_path_factory.mktemp("dist")
    return build(tree, out, RAG_ASSETS_REPOSITORY=FORGE, RAG_ASSETS_REVISION="v1")
