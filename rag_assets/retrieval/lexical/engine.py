"""What an engine can do, and which there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError, allowed_names
from rag_assets.ordering import Hits, Positions
from rag_assets.package_versions import version
from rag_assets.retrieval.lexical.bm25_variants import resolve_delta, resolve_variant
from rag_assets.retrieval.lexical.builtin_engine import BuiltinEngine
from rag_assets.retrieval.lexical.rank_bm25_engine import RankBm25Engine
from rag_assets.retrieval.lexical.tfidf_engine import TfIdfEngine
from rag_assets.retrieval.lexical.token_counts import TokenCounts

ENGINES = ("builtin", "rank_bm25")
"""The engines of BM25."""

DISTRIBUTIONS = {"rank_bm25": "rank-bm25"}
"""Engine of BM25 -> the installed package that computes it; ``builtin`` is computed here."""

TFIDF = "tfidf"
"""The engine of TF-IDF, which is our own."""


class Engine(Protocol):
    """An index over the tokens of chunks that scores all of them for a query."""

    @property
    def vocabulary_size(self) -> int:
        """Number of distinct tokens."""

    def save(self, folder: Path) -> None:
        """Write the index as ``.npy`` and JSON files."""

    def scores(self, query_tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the score of every chunk; a repeated token counts as often as it occurs."""

    def best(self, queries: Iterable[Sequence[str]], ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield for each query the ``k`` best chunks of those that score above 0, in the one order.

        Scores are those of ``scores``; ``ids_rank`` is the place of each chunk's id in byte order.

        Raises:
            UsageError: ``k`` is below 1.
        """


# The code of an engine is found in these tables, see ``engine_code``.
_BUILD: Mapping[str, Callable[..., Engine]] = {
    "builtin": BuiltinEngine.build,
    "rank_bm25": lambda counts, *options: RankBm25Engine.build(list(counts.texts()), *options),
}
_LOAD: Mapping[str, Callable[..., Engine]] = {
    "builtin": BuiltinEngine.load,
    "rank_bm25": lambda folder, mmap: RankBm25Engine.load(folder),
    "tfidf": TfIdfEngine.load,
}


def build_engine(
    engine: str,
    counts: TokenCounts,
    k1: float,
    b: float,
    variant: str | None = None,
    delta: float | None = None,
) -> Engine:
    """Index the counted tokens of chunks; see :mod:`rag_assets.retrieval.lexical.bm25_variants`.

    Raises:
        UsageError: there is no such engine, it does not compute the variant, or a parameter lies
            outside its range.
    """
    chosen = resolve_variant(engine, variant)
    delta = resolve_delta(chosen, delta)
    if not k1 >= 0:
        raise UsageError(f"k1 is {k1}; must be at least 0")
    if not 0 <= b <= 1:
        raise UsageError(f"b is {b}; must be from 0 to 1")
    return _BUILD[engine](counts, k1, b, chosen, delta)


def load_engine(engine: str, folder: Path, *, mmap: bool = True) -> Engine:
    """Read back what ``save`` wrote; ``mmap`` maps the arrays instead of reading them.

    Raises:
        UsageError: there is no such engine.
    """
    if engine != TFIDF:
        check_engine(engine)
    return _LOAD[engine](folder, mmap=mmap)


def engine_code(engine: str) -> list[Root]:
    """Return the roots of the code of one engine."""
    builds = engine if engine in ENGINES else ""
    return [f"{__name__}:_BUILD[{builds}]", f"{__name__}:_LOAD[{engine}]"]


def own_versions(engine: str) -> dict[str, str]:
    """Return the version of the package that an engine drives, if there is one.

    Raises:
        UsageError: there is no such engine.
    """
    check_engine(engine)
    package = DISTRIBUTIONS.get(engine)
    return {} if package is None else {package: version(package)}


def check_engine(engine: str) -> None:
    """Refuse an unknown name.

    Raises:
        UsageError: there is no such engine.
    """
    if engine not in ENGINES:
        raise UsageError(f"engine {allowed_names(engine, ENGINES)}")
