from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from rag_assets.compute.compute import LOCAL, Compute, LocalCompute
from rag_assets.models.cached_encoder import encode_unknown
from rag_assets.models.vector_cache import SPARSE_VECTORS, EncodedCache, SparseVector

Result = TypeVar("Result")


class LastFirst(LocalCompute):
    """Finishes its blocks in another order, as a cluster may."""

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        yield from reversed([(n, work(*block)) for n, block in enumerate(blocks)])


def encoded(text: str) -> SparseVector:
    """One component: how long the text is."""
    return SparseVector(np.array([len(text)], np.int32), np.array([1.5], np.float32))


class Groups:
    """Encodes, and notes what it was given."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def __call__(self, texts: list[str]) -> list[SparseVector]:
        self.seen.append(texts)
        return [encoded(text) for text in texts]


def lengths(
    texts: list[str],
    encode: Callable[[list[str]], list[SparseVector]],
    cache: Path | None,
    prompt: str = "p: ",
    compute: Compute = LOCAL,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, int]:
    opened = EncodedCache(cache, "0" * 16, SPARSE_VECTORS) if cache is not None else None
    found = encode_unknown(
        texts,
        encode,
        lengths=lambda unknown: np.array([len(text) for text in unknown], dtype=np.int_),
        prompt=prompt,
        cache=opened,
        compute=compute,
        group_size=2,
        progress=progress,
    )
    return {text: int(vector.components[0]) for text, vector in found.items()}


@pytest.mark.parametrize("compute", [LOCAL, LastFirst()])
def test_each_text_is_encoded_once_longest_first(tmp_path: Path, compute: Compute) -> None:
    encode, told = Groups(), list[tuple[int, int]]()
    texts = ["bb", "a", "", "bb", "dddd", "ccc"]
    found = lengths(texts, encode, tmp_path, compute=compute, progress=lambda *n: told.append(n))
    assert found == {text: len(text) for text in texts}
    assert encode.seen == [["dddd", "ccc"], ["bb", "a"], [""]]
    assert [total for _, total in told] == [5, 5, 5]
    assert told[-1] == (5, 5)


def test_only_what_is_unknown_with_its_prompt_is_encoded(tmp_path: Path) -> None:
    first, again, prompted = Groups(), Groups(), Groups()
    lengths(["a", "bb"], first, tmp_path)
    told: list[tuple[int, int]] = []
    found = lengths(["ccc", "a", "bb"], again, tmp_path, progress=lambda *n: told.append(n))
    assert found == {"a": 1, "bb": 2, "ccc": 3}
    assert (again.seen, told) == ([["ccc"]], [(1, 1)])
    lengths(["a", "bb"], again, tmp_path, progress=lambda *n: told.append(n))
    assert (len(again.seen), len(told)) == (1, 1), "nothing is left to be done"
    lengths(["a"], prompted, tmp_path, prompt="q: ")
    assert prompted.seen == [["a"]]


def test_what_was_encoded_before_a_failure_is_kept(tmp_path: Path) -> None:
    def short_ones_fail(texts: list[str]) -> list[SparseVector]:
        if "a" in texts:
            raise ValueError("a")
        return [encoded(text) for text in texts]

    with pytest.raises(ValueError, match="a"):
        lengths(["a", "bb", "ccc"], short_ones_fail, tmp_path)
    again = Groups()
    lengths(["a", "bb", "ccc"], again, tmp_path)
    assert again.seen == [["a"]]


def test_without_a_cache_everything_is_encoded() -> None:
    encode = Groups()
    for _ in range(2):
        assert lengths(["a"], encode, None) == {"a": 1}
    assert encode.seen == [["a"], ["a"]]
