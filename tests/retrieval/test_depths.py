"""What stands on top does not depend on how deep anything reads: engines, and planted faults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_assets.testing import RetrieverContract
from rag_assets.testing.retrievers import WIDE, Evaluated
from tests.static_model import save_static_model

BM25: Mapping[str, Any] = {"type": "bm25", "analyzer": "english"}


class Contract(RetrieverContract):
    """Not collected: called for one option after the other."""

    __test__ = False


def check(options: Mapping[str, Any], folders: pytest.TempPathFactory) -> None:
    """Check one retriever alone."""
    given = {"bm25": {**BM25}, "checked": options}
    Contract().test_how_deep_a_search_goes_changes_nothing_above(given, "checked", folders)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_static_model(tmp_path_factory.mktemp("model") / "static", list(WIDE.values()))


@pytest.mark.parametrize(
    "options",
    [
        {"index": "hnsw", "hnsw": {"m": 2, "ef_construction": 4, "ef_search": 6}},
        {"index": "hnsw", "hnsw": {"m": 2, "ef_search": 4}, "similarity": "euclidean"},
        {"similarity": "euclidean"},
    ],
    ids=str,
)
def test_searches_of_vectors(
    options: Mapping[str, Any], model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A graph this small misses much, and the same whatever it is asked for."""
    check({"type": "embedding", "model": str(model), **options}, tmp_path_factory)


@pytest.mark.parametrize(
    "options",
    [
        {"variant": "okapi"},
        {"expand": {"type": "rm3", "documents": 3}},
    ],
    ids=str,
)
def test_searches_of_words(
    options: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check({**BM25, **options}, tmp_path_factory)


class ByDepth(Evaluated):
    """A search of its own that puts another document first, the more it is asked for."""

    def prepare(self, root: Path) -> None:
        code = (
            f"def retrieve(query, k):\n    ids = {list(WIDE)!r}\n    return [*ids[k:], *ids][:k]\n"
        )
        (root / "search.py").write_text(code, encoding="utf-8")


class ContractByDepth(Contract):
    evaluated = ByDepth


def test_a_search_that_depends_on_the_depth_is_found_out(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    options = {"type": "python", "call": "../search.py:retrieve"}
    found = ContractByDepth().test_how_deep_a_search_goes_changes_nothing_above
    with pytest.raises(AssertionError):
        found({"checked": options}, "checked", tmp_path_factory)
    found({"checked": {**options, "k": 10}}, "checked", tmp_path_factory)
