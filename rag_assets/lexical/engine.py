"""What an engine can do, and which there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rag_assets.errors import UsageError, allowed_names
from rag_assets.lexical import bm25s_engine, rank_bm25_engine, tantivy_engine
from rag_assets.lexical.bm25_variants import check_parameter, resolve_delta, resolve_variant
from rag_assets.lexical.bm25s_engine import Bm25sEngine
from rag_assets.lexical.rank_bm25_engine import RankBm25Engine
from rag_assets.lexical.tantivy_engine import TantivyEngine
from rag_assets.lexical.tfidf_engine import TfIdfEngine
from rag_assets.ordering import Hits, Positions
from rag_assets.package_versions import version

DISTRIBUTIONS = {"rank_bm25": "rank-bm25", "tantivy": "tantivy"}
"""Engine of BM25 -> the installed package that computes it; ``bm25s`` is computed here."""

TFIDF = "tfidf"
"""The engine of TF-IDF, which is our own."""

_CODE_VERSIONS = {
    "bm25s": bm25s_engine.VERSION,
    "rank_bm25": rank_bm25_engine.VERSION,
    "tantivy": tantivy_engine.VERSION,
}


class Engine(Protocol):
    """An index over the tokens of chunks that scores all of them for a query."""

    @property
    def vocabulary_size(self) -> int:
        """Number of distinct tokens."""

    def save(self, folder: Path) -> None:
        """Write the index as files; ``.npy`` and JSON, except that of tantivy."""

    def scores(self, query_tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the score of every chunk; a repeated token counts as often as it occurs."""

    def best(self, queries: Iterable[Sequence[str]], ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield for each query the ``k`` best chunks of those that score above 0, in the one order.

        Scores are those of ``scores``; ``ids_rank`` is the place of each chunk's id in byte order.

        Raises:
            UsageError: ``k`` is below 1.
        """


def build_engine(
    engine: str,
    tokens: Iterable[list[str]],
    k1: float,
    b: float,
    variant: str | None = None,
    delta: float | None = None,
) -> Engine:
    """Index the tokens of each chunk; see :mod:`rag_assets.lexical.bm25_variants`.

    ``tokens`` is iterated over once.

    Raises:
        UsageError: there is no such engine, its package is missing, it does not compute the
            variant, or a parameter lies outside its range.
    """
    chosen = resolve_variant(engine, variant)
    delta = resolve_delta(chosen, delta)
    check_parameter(engine, "k1", k1)
    check_parameter(engine, "b", b)
    if not k1 >= 0:
        raise UsageError(f"k1 is {k1}; must be at least 0")
    if not 0 <= b <= 1:
        raise UsageError(f"b is {b}; must be from 0 to 1")
    if engine == "rank_bm25":
        return RankBm25Engine.build(list(tokens), k1, b, chosen, delta)
    if engine == "tantivy":
        return TantivyEngine.build(tokens)
    return Bm25sEngine.build(tokens, k1, b, chosen, delta)


def load_engine(engine: str, folder: Path, *, mmap: bool = True) -> Engine:
    """Read back what ``save`` wrote; ``mmap`` maps the arrays instead of reading them.

    Raises:
        UsageError: there is no such engine.
    """
    if engine == TFIDF:
        return TfIdfEngine.load(folder, mmap=mmap)
    check_engine(engine)
    if engine == "rank_bm25":
        return RankBm25Engine.load(folder)
    if engine == "tantivy":
        return TantivyEngine.load(folder)
    return Bm25sEngine.load(folder, mmap=mmap)


def own_versions(engine: str) -> dict[str, str]:
    """Return the version of the engine's code here, and of the package that it drives.

    Raises:
        UsageError: there is no such engine.
    """
    check_engine(engine)
    own = {f"engine.{engine}": _CODE_VERSIONS[engine]}
    package = DISTRIBUTIONS.get(engine)
    return own if package is None else {**own, package: version(package)}


def check_engine(engine: str) -> None:
    """Refuse an unknown name, and an engine whose package is not installed.

    Raises:
        UsageError: there is no such engine, or an extra is missing.
    """
    if engine not in _CODE_VERSIONS:
        raise UsageError(f"engine {allowed_names(engine, _CODE_VERSIONS)}")
    if engine == "tantivy" and find_spec(tantivy_engine.PACKAGE) is None:
        raise UsageError(tantivy_engine.MISSING)
