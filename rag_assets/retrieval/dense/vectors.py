"""``type: vectors``: vectors that were computed elsewhere, searched exactly.

They are a ``.npy`` file and one of ids: a text file, one a line, or a list in ``.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
from pydantic import model_validator

from rag_assets.errors import DataError
from rag_assets.input_files import read_bytes, suffix
from rag_assets.models.cache_fill import Vectors, as_wanted
from rag_assets.retrieval.base import ORIGINAL, EmbeddingRetriever, Role
from rag_assets.retrieval.dense.vector_index import (
    Similarity,
    VectorIndex,
    build_vectors,
    dense_table,
)
from rag_assets.retrieval.workspace import Workspace

EMPTY_ID = "an id must be a text that is not empty"


class FileVectorsRetriever(EmbeddingRetriever):
    """Embedding retrieval by vectors from files.

    ``chunk_vectors`` and ``query_vectors`` are ``.npy``, each with a file of ids. The ids
    are those of the chunks of ``chunking`` (a document that is not cut is a chunk of its own
    id) and of the queries. ``similarity: cosine`` brings vectors to length 1; ``dot`` is the inner
    product as they are, ``euclidean`` the negative of their distance.
    """

    search_kind: ClassVar[str | None] = "faiss"
    file_options: ClassVar[tuple[str, ...]] = (
        "chunk_vectors",
        "chunk_ids",
        "query_vectors",
        "query_ids",
    )
    search_packages: ClassVar[tuple[str, ...]] = ("faiss-cpu",)

    type: Literal["vectors"]
    chunk_vectors: Path
    chunk_ids: Path
    query_vectors: Path
    query_ids: Path
    similarity: Annotated[Similarity, Role.SEARCH] = "cosine"

    @model_validator(mode="after")
    def _original_queries(self) -> Self:
        if self.query_set != ORIGINAL:
            raise ValueError("has vectors of queries but not of variants, so it takes no query_set")
        return self

    @property
    def indexes_texts(self) -> bool:
        return False

    def describe(self, kind: Literal["query", "document"]) -> Mapping[str, Any]:
        return {"normalisation": "l2" if self.similarity == "cosine" else "none"}

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        read = read_vectors(self.chunk_vectors, self.chunk_ids)
        chunk_ids: list[str] = chunks.column("chunk_id").to_pylist()
        vectors = self._checked(read, chunk_ids, "chunk")
        facts = build_vectors(chunk_ids, texts, folder, None, lambda *_, **__: vectors)
        return {**facts, "n_other_ids": len(read.ids) - len(chunk_ids)}

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        read = read_vectors(self.query_vectors, self.query_ids)
        query_ids = variants.column("query_id").to_pylist()
        return dense_table(variants, self._checked(read, query_ids, "query"))

    def open(self, folder: Path) -> VectorIndex:
        return VectorIndex.load(folder, self.similarity)

    def _checked(self, read: FileVectors, ids: Sequence[str], what: str) -> Vectors:
        vectors, is_unit = read.of(ids, what), self.similarity == "cosine"
        try:
            return as_wanted(vectors, lambda row: f"{what} '{ids[row]}'", normalise=is_unit)
        except DataError as error:
            raise DataError(str(error), file=read.path) from error


class FileVectors(NamedTuple):
    """Vectors by id; float32, shape (len(ids), dimension)."""

    path: Path
    ids: Sequence[str]
    vectors: Vectors

    def of(self, wanted: Sequence[str], what: str) -> Vectors:
        """Return the vectors of these ids, in their order; ``what`` they are, in an error."""
        rows = {name: row for row, name in enumerate(self.ids)}
        missing = [name for name in wanted if name not in rows]
        if missing:
            also = f", nor for {len(missing) - 1} more" if missing[1:] else ""
            raise DataError(f"has no vector for {what} '{missing[0]}'{also}", file=self.path)
        return self.vectors[[rows[name] for name in wanted]]


def read_vectors(path: Path, ids: Path) -> FileVectors:
    """Read a ``.npy`` file with its ids."""
    vectors = FileVectors(path, _ids(ids), _npy(path))
    if len(vectors.ids) != len(vectors.vectors):
        problem = f"has {len(vectors.ids)} ids for the {len(vectors.vectors)} vectors of {path}"
        raise DataError(problem, file=ids)
    rows: dict[str, int] = {}
    for row, name in enumerate(vectors.ids, 1):
        if not name or name in rows:
            problem = f"'{name}' is already in row {rows[name]}" if name else EMPTY_ID
            raise DataError(problem, file=ids, line=row)
        rows[name] = row
    return vectors


def _npy(path: Path) -> Vectors:
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot be read as .npy: {error}", file=path) from error
    shape, kind = getattr(vectors, "shape", ()), getattr(vectors, "dtype", "?")
    if len(shape) != 2 or getattr(kind, "kind", "") != "f":
        problem = f"holds {kind} of shape {shape}; it must be floats of shape (rows, dimension)"
        raise DataError(problem, file=path)
    return np.asarray(vectors, dtype=np.float32)


def _ids(path: Path) -> list[str]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
        ids = json.loads(text) if suffix(path) == ".json" else text.splitlines()
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot be read: {error}", file=path) from error
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise DataError("must be a list of texts", file=path)
    return ids
