"""``type: vectors``: vectors that were computed elsewhere, searched exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import model_validator

from rag_assets.errors import DataError
from rag_assets.models.unit_vectors import Vectors, checked_lengths, to_unit_rows
from rag_assets.package_versions import version
from rag_assets.retrieval.base import ORIGINAL, EmbeddingRetriever
from rag_assets.retrieval.dense import flat_index, similarity_search
from rag_assets.retrieval.dense.dense_searchers import FlatSearcher, SimilaritySearcher
from rag_assets.retrieval.dense.query_vectors import dense_table
from rag_assets.retrieval.dense.vector_files import FileVectors, read_vectors
from rag_assets.retrieval.retriever import Searcher
from rag_assets.retrieval.workspace import Workspace


class FileVectorsRetriever(EmbeddingRetriever):
    """Embedding retrieval by vectors from files.

    ``chunk_vectors`` and ``query_vectors`` are ``.npy``, each with a file of ids, or Parquet. The
    ids are those of the chunks of ``chunking`` (a document that is not cut is a chunk of its own
    id) and of the queries. ``similarity: cosine`` brings vectors to length 1; ``dot`` is the inner
    product as they are, ``euclidean`` the negative of their distance.
    """

    search_kind: ClassVar[str | None] = "faiss"
    search_options: ClassVar[frozenset[str]] = frozenset({"similarity"})
    file_options: ClassVar[tuple[str, ...]] = (
        "chunk_vectors",
        "chunk_ids",
        "query_vectors",
        "query_ids",
    )

    type: Literal["vectors"]
    chunk_vectors: Path
    chunk_ids: Path | None = None
    query_vectors: Path
    query_ids: Path | None = None
    similarity: Literal["cosine", "dot", "euclidean"] = "cosine"

    @model_validator(mode="after")
    def _original_queries(self) -> Self:
        if self.query_set != ORIGINAL:
            raise ValueError("has vectors of queries, not of their variants: no query_set applies")
        return self

    @model_validator(mode="after")
    def _ids_belong_to_npy(self) -> Self:
        for name in ("chunk", "query"):
            file: Path = getattr(self, f"{name}_vectors")
            has_ids = getattr(self, f"{name}_ids") is not None
            if (file.suffix.lower() == ".npy") != has_ids:
                raise ValueError(f"{name}_ids belong to {name}_vectors in .npy, which need them")
        return self

    def describe(self, kind: Literal["query", "document"]) -> Mapping[str, Any]:
        """Return whether vectors are brought to length 1; what they are is in their files."""
        return {"normalisation": "l2" if self.similarity == "cosine" else "none"}

    def index_options(self) -> Mapping[str, Any]:
        """Return nothing of its own: all that counts is in :meth:`describe` and the files."""
        return {}

    def search_versions(self) -> Mapping[str, str]:
        """Return the version of what searches."""
        return {"faiss-cpu": version("faiss-cpu")}

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Read the vectors of the chunks; those of other ids are left out and counted."""
        read = read_vectors(self.chunk_vectors, self.chunk_ids)
        chunk_ids: list[str] = chunks.column("chunk_id").to_pylist()
        vectors = self._checked(read, chunk_ids, "chunk")
        facts = flat_index.save(chunk_ids, vectors, folder)
        return {**facts, "n_other_ids": len(read.ids) - len(chunk_ids)}

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Read the vectors of the queries."""
        read = read_vectors(self.query_vectors, self.query_ids)
        query_ids = variants.column("query_id").to_pylist()
        return dense_table(variants, self._checked(read, query_ids, "query"))

    def open(self, folder: Path) -> Searcher[pa.Table]:
        """Open the vectors."""
        index = flat_index.FlatIndex.load(folder)
        if self.similarity == "cosine":
            return FlatSearcher(index)
        return SimilaritySearcher(similarity_search.searchable(index, self.similarity))

    def _checked(self, read: FileVectors, ids: Sequence[str], what: str) -> Vectors:
        vectors = read.of(ids, what)

        def name_of(row: int) -> str:
            return f"{what} '{ids[row]}'"

        try:
            if self.similarity == "cosine":
                return to_unit_rows(vectors, name_of)
            checked_lengths(vectors, name_of)
        except DataError as error:
            raise DataError(str(error), file=read.path) from error
        return vectors
