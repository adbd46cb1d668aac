"""Engines of others that search vectors: what their types share, and how each is asked.

An engine gives so many hits and cuts ties as it likes, so it is asked for more than are wanted,
until the last of them scores lower than the last that is wanted: then order and cut are ours. One
that looks at a fixed number of candidates, as a graph does, is asked for these, whatever the depth,
so that a shorter list is the beginning of a longer one.

An engine in this process keeps a database, which is made once and is part of the index: two of the
same vectors are not alike in LanceDB and Chroma, which draw at random. What is searched is a copy,
since engines write where they read. The vectors lie beside it: by them hits are scored in float64,
except where the engine's own scores, of compressed vectors, are what is to be evaluated.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from rag_assets.errors import DataError, RagAssetsError, StoreError, UsageError
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.package_versions import version
from rag_assets.retrieval.base import VARIANT_OPTIONS, EmbeddingRetriever
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.dense.query_vectors import dense_matrix
from rag_assets.retrieval.dense.search import MARGIN, inner_products
from rag_assets.retrieval.dense.similarity_search import (
    SimilaritySearcher,
    searchable,
    squared_distances,
)
from rag_assets.retrieval.retriever import IndexSearcher, Searcher
from rag_assets.retrieval.workspace import Workspace

Similarity = Literal["cosine", "dot", "euclidean"]
Scores = npt.NDArray[np.float64]

DATABASE = "database"
"""The folder of an engine's files in that of an index."""

QUERIES_AT_ONCE = 64
FP32_TOLERANCE = 1e-4
"""How far the scores of an engine in this process may be from exact ones, relatively."""

ENCODING = frozenset({"model", "query_prompt", "document_prompt", "precision"})
"""Options whose effect is in ``describe``."""


class Found(NamedTuple):
    """Positions of chunks, and scores, the higher the better; a chunk may stand there twice."""

    positions: Positions
    scores: Scores


class Engine(Protocol):
    """What searches.

    Attributes:
        count: how many vectors there are.
        candidates: how many a search gives, whatever the depth; None: as many as are asked for.
        rescored: whether hits are scored anew by their vectors, where these are known.
    """

    @property
    def count(self) -> int: ...  # noqa: D102

    @property
    def candidates(self) -> int | None: ...  # noqa: D102

    @property
    def rescored(self) -> bool: ...  # noqa: D102

    def nearest(self, queries: Vectors, limit: int) -> Sequence[Found]:
        """Return what is found for each query, ``limit`` at most."""


@dataclass(frozen=True)
class EngineIndex:
    """Chunks, and the engine that finds them.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        engine: what searches.
        similarity: what scores are; a Euclidean distance becomes its negative.
        flat: the vectors of the chunks where they are known.
    """

    chunk_ids: Sequence[str]
    engine: Engine
    similarity: Similarity
    flat: FlatIndex | None = None

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    @property
    def scored_by(self) -> FlatIndex | None:
        """The vectors that score what is found; None: the engine does."""
        return self.flat if self.engine.rescored else None


@dataclass(frozen=True)
class EngineSearcher(IndexSearcher[EngineIndex]):
    """Chunks that an engine searches."""

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return search(self.index, dense_matrix(queries), depth, progress)


@dataclass(frozen=True)
class ApproximateEngineSearcher(EngineSearcher):
    """Chunks that an engine searches and may miss; their vectors are known."""

    flat: FlatIndex

    def among(self, positions: Positions) -> Searcher[pa.Table]:
        """Return an exact searcher of these chunks: the engine finds too few of them."""
        return exact_searcher(self.flat.among(positions), self.index.similarity)

    def exact(self) -> Searcher[pa.Table]:
        """Return an exact searcher of all chunks."""
        return exact_searcher(self.flat, self.index.similarity)


def exact_searcher(flat: FlatIndex, similarity: Similarity) -> SimilaritySearcher:
    """Return a searcher by float64; the inner product of vectors of length 1 is their cosine."""
    measure: Literal["dot", "euclidean"] = "euclidean" if similarity == "euclidean" else "dot"
    return SimilaritySearcher(searchable(flat, measure))


class EngineRetriever(EmbeddingRetriever, ABC):
    """A retriever whose vectors are made as ``type: embedding`` does, and searched by an engine.

    Attributes:
        package: what is to be installed; the extra that brings it has the name of the type.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    package: ClassVar[str]

    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None
    similarity: Literal["cosine", "dot", "euclidean"] = "cosine"
    precision: Literal["auto", "float32", "bfloat16"] = "float32"

    def describe(self, kind: Literal["query", "document"]) -> Mapping[str, Any]:
        """Return what embeds."""
        return self.bi_encoder().describe(kind)

    def read_by(self) -> ModelFiles:
        """Return the model's files."""
        return self.bi_encoder().read_by()

    def search_config(self) -> Mapping[str, Any]:
        """Return the options that determine the ranking besides the index."""
        return {**super().search_config(), "similarity": self.similarity}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        return self.bi_encoder().versions()

    def search_versions(self) -> Mapping[str, str]:
        """Return the version of the engine.

        Raises:
            UsageError: it is not installed.
        """
        try:
            return {self.package: version(self.package)}
        except PackageNotFoundError as error:
            raise missing(self.type, self.package) from error

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        return self.bi_encoder().encode(variants, workspace)

    def encode_now(self, texts: Sequence[str]) -> bool:
        """Embed queries past the cache, when the model is in memory."""
        return self.bi_encoder().encode_now(texts)

    def bi_encoder(self) -> BiEncoder:
        """Return the retriever that embeds in the same way."""
        return BiEncoder(
            type="embedding",
            model=self.model,
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
            similarity=self.similarity,
            precision=self.precision,
        )


class DatabaseRetriever(EngineRetriever, ABC):
    """A retriever of an engine in this process, which has a database of its own.

    Attributes:
        module: what is imported.
    """

    module: ClassVar[str]

    @abstractmethod
    def create(self, positions: Positions, vectors: Vectors, folder: Path) -> Mapping[str, Any]:
        """Write a database, ``vectors`` under their ``positions``, and return facts worth showing.

        Args:
            positions: of the chunks, in the order of their ids.
            vectors: float32, shape (len(positions), dimension), at least one row.
            folder: exists, and is empty.
        """

    @abstractmethod
    def connect(self, folder: Path) -> tuple[Engine, Callable[[], object]]:
        """Open what ``create`` wrote, and return with it what closes it."""

    def index_options(self) -> Mapping[str, Any]:
        """Return what a database is made by; what embeds is in :meth:`describe`."""
        return self.described(exclude=ENCODING | self.search_options | VARIANT_OPTIONS)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds, and of the engine that makes the database."""
        return {**super().versions(), **self.search_versions()}

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts, write their vectors, and let the engine make its database.

        Raises:
            DataError: the engine refuses the vectors.
        """
        facts = self.bi_encoder().build(chunks, texts, folder, workspace)
        flat, database = FlatIndex.load(folder), folder / DATABASE
        order = np.argsort(flat.ids_rank)
        database.mkdir()
        made = self._created(order, flat.vectors[order], database) if len(order) else {}
        size = sum(file.stat().st_size for file in database.rglob("*") if file.is_file())
        return {**facts, **made, "database_bytes": size}

    def open(self, folder: Path) -> Searcher[pa.Table]:
        """Open a copy of the database, which goes when nothing searches it any more.

        Raises:
            StoreError: the engine cannot read it.
        """
        flat = FlatIndex.load(folder)
        if not flat.chunk_ids:
            return exact_searcher(flat, self.similarity)
        copy = Path(tempfile.mkdtemp(prefix="rag-assets-"))
        try:
            shutil.copytree(folder / DATABASE, copy / DATABASE)
            engine, close = self.connect(copy / DATABASE)
        except Exception as error:  # each engine has its own
            shutil.rmtree(copy, ignore_errors=True)
            if isinstance(error, RagAssetsError):
                raise
            problem = f"cannot be read by {self.package}: {_first_line(error)}"
            raise StoreError(f"{folder / DATABASE} {problem}") from error
        weakref.finalize(engine, _discard, close, copy)
        index = EngineIndex(flat.chunk_ids, engine, self.similarity, flat)
        return ApproximateEngineSearcher(index, flat)

    def _created(self, positions: Positions, vectors: Vectors, folder: Path) -> Mapping[str, Any]:
        try:
            return self.create(positions, vectors, folder)
        except RagAssetsError:
            raise
        except Exception as error:  # each engine has its own
            shape = f"{len(positions)} vectors of dimension {vectors.shape[1]}"
            problem = f"{self.package} makes no index of {shape}: {_first_line(error)}"
            raise DataError(f"type {self.type}: {problem}") from error

    def library(self) -> Any:  # noqa: ANN401 (theirs)
        """Return the engine's package, which is imported here.

        Raises:
            UsageError: it is not installed.
        """
        try:
            return import_module(self.module)
        except ImportError as error:
            raise missing(self.type, self.package) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def missing(kind: str, package: str) -> UsageError:
    """Return the error of a type whose engine is not installed."""
    extra = kind.replace("_", "-")
    return UsageError(f"type {kind} needs the package {package}: pip install 'rag-assets[{extra}]'")


def _discard(close: Callable[[], object], folder: Path) -> None:
    close()
    shutil.rmtree(folder, ignore_errors=True)


def search(
    index: EngineIndex,
    query_vectors: Vectors,
    k: int,
    progress: Callable[[int], None] | None = None,
) -> list[Hits]:
    """Return for each query the best ``k`` chunks that the engine finds.

    Order: score descending, then id descending by UTF-8 bytes. Where a chunk is found twice, the
    best counts.

    Raises:
        UsageError: ``k`` is below 1.
    """
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    hits: list[Hits] = []
    for start in range(0, len(query_vectors), QUERIES_AT_ONCE):
        queries = query_vectors[start : start + QUERIES_AT_ONCE]
        hits += _search_block(index, queries, k)
        if progress is not None:
            progress(len(hits))
    return hits


def _search_block(index: EngineIndex, queries: Vectors, k: int) -> list[Hits]:
    engine = index.engine
    if not engine.count:
        return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in queries]
    limit = min(engine.candidates or k + MARGIN, engine.count)
    hits = []
    for query, found in zip(queries, engine.nearest(queries, limit), strict=True):
        asked = limit
        while engine.candidates is None and not _is_complete(index, found, k, asked):
            asked = min(4 * asked, engine.count)
            found = engine.nearest(query[None], asked)[0]
        hits.append(_hits(index, query, _best_of(found), k))
    return hits


def _best_of(found: Found) -> Found:
    """Return each chunk once, with its best score."""
    order = np.argsort(-found.scores, kind="stable")
    positions, first = np.unique(found.positions[order], return_index=True)
    return Found(positions, found.scores[order][first])


def _is_complete(index: EngineIndex, found: Found, k: int, asked: int) -> bool:
    """Return whether nothing that the engine left out can be among the best k."""
    if len(found.scores) < asked or asked >= index.engine.count:
        return True
    scores = np.sort(_best_of(found).scores)[::-1]
    if len(scores) <= k:
        return False
    size = max(1.0, abs(scores[0]), abs(scores[-1]))
    error = FP32_TOLERANCE * size if index.scored_by is not None else 0.0
    return bool(scores[-1] < scores[k - 1] - error)


def _hits(index: EngineIndex, query: npt.NDArray[np.float32], found: Found, k: int) -> Hits:
    candidates, scores = found
    if index.scored_by is not None:
        scores = _exact(index.scored_by.vectors[candidates], query, index.similarity)
    order = top_k(scores, index.ids_rank[candidates], k)
    return Hits(candidates[order], scores[order])


def _exact(vectors: Vectors, query: npt.NDArray[np.float32], similarity: Similarity) -> Scores:
    if similarity == "euclidean":
        distances: Scores = -np.sqrt(squared_distances(vectors, query))
        return distances
    return inner_products(vectors, query)
