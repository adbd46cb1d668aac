"""Retrievers by engines of others, and what those with a database in this process share.

A database is made once and is part of the index: two of the same vectors are not alike in LanceDB
and Chroma, which draw at random. What is searched is a copy, since engines write where they read.
The vectors lie beside it: by them hits are scored in float64, except where the engine's own scores,
of compressed vectors, are what is to be evaluated.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from rag_assets.errors import DataError, RagAssetsError, StoreError, UsageError
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Positions
from rag_assets.package_versions import version
from rag_assets.retrieval.base import VARIANT_OPTIONS, EmbeddingRetriever
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.dense.engine_search import (
    ApproximateEngineSearcher,
    Engine,
    EngineIndex,
    exact_searcher,
)
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.retriever import Searcher
from rag_assets.retrieval.workspace import Workspace

DATABASE = "database"
"""The folder of an engine's files in that of an index."""

ENCODING = frozenset({"model", "query_prompt", "document_prompt", "precision"})
"""Options whose effect is in ``describe``."""


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
