"""``type: embedding``: vectors of a bi-encoder, searched exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.embedding import flat_index
from rag_assets.embedding.encoder import Encoder
from rag_assets.embedding.models import DEFAULT_MODEL
from rag_assets.embedding.query_vectors import dense_matrix, dense_table
from rag_assets.embedding.search import search
from rag_assets.embedding.truncation import count_truncated
from rag_assets.embedding.unit_vectors import Vectors
from rag_assets.ordering import Hits, Positions
from rag_assets.retrievers.base import EmbeddingRetriever
from rag_assets.retrievers.workspace import Workspace


class BiEncoder(EmbeddingRetriever):
    """Embedding retrieval: exact inner product of normalised vectors.

    The prompts are put before every query or document; by default the model's own.
    """

    code_version: ClassVar[str] = "3"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.embedding.encoder",
        "rag_assets.embedding.loading",
        "rag_assets.embedding.models",
        "rag_assets.embedding.model_files",
        "rag_assets.embedding.model_config",
        "rag_assets.embedding.unit_vectors",
        "rag_assets.embedding.flat_index",
        "rag_assets.embedding.query_vectors",
        "rag_assets.embedding.search",
        "rag_assets.embedding.truncation",
        "rag_assets.ordering",
    )

    type: Literal["embedding"]
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    def describe(self, kind: Literal["query", "document"]) -> Mapping[str, Any]:
        """Return weights, tokenizer, prompt, maximum length, pooling and the like."""
        return self._encoder().describe(kind)

    def index_options(self) -> Mapping[str, Any]:
        """Return nothing of its own: all that counts is in :meth:`describe`."""
        return {}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        names = ("sentence-transformers", "torch", "transformers")
        return {name: version(name) for name in names}

    def search_versions(self) -> Mapping[str, str]:
        """Return the version of what searches."""
        return {"faiss-cpu": version("faiss-cpu")}

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write their vectors.

        Among the facts is ``n_truncated``: how many chunks are longer than the model reads.
        """
        vectors = self._vectors(texts, "document", workspace)
        facts = flat_index.build(chunks.column("chunk_id").to_pylist(), vectors, folder)
        encoder = self._encoder()
        n_truncated = count_truncated(texts, encoder.files, encoder.prompt("document"))
        return facts if n_truncated is None else {**facts, "n_truncated": n_truncated}

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        texts = variants.column("text").to_pylist()
        return dense_table(variants, self._vectors(texts, "query", workspace))

    def encode_now(self, texts: Sequence[str]) -> bool:
        """Embed queries past the cache, when the model is in memory."""
        encoder = self._encoder()
        if not encoder.is_loaded:
            return False
        encoder.embed_now(texts, kind="query")
        return True

    def open(self, folder: Path) -> FlatSearcher:
        """Open the vectors."""
        return FlatSearcher(flat_index.FlatIndex.load(folder))

    def _vectors(
        self, texts: Sequence[str], kind: Literal["query", "document"], workspace: Workspace
    ) -> Vectors:
        """Embed texts, and keep how many were new and what they took; loading counts."""
        n_new = 0
        label = "embed queries" if kind == "query" else "embed chunks"
        with workspace.progress(label, len(texts)) as advance:

            def count(done: int, total: int) -> None:
                nonlocal n_new
                n_new = total
                advance(done, total)

            started = time.perf_counter()
            vectors = self._encoder(workspace).encode(texts, kind=kind, progress=count)
            seconds = time.perf_counter() - started
        workspace.measure("embed", seconds, n_new, cached=False)
        workspace.measure("embed", None, len(set(texts)) - n_new, cached=True)
        return vectors

    def _encoder(self, workspace: Workspace | None = None) -> Encoder:
        return Encoder(
            self.model,
            cache=workspace.cache_of("embeddings") if workspace is not None else None,
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
        )


@dataclass(frozen=True)
class FlatSearcher:
    """Vectors that are searched exactly."""

    index: flat_index.FlatIndex

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return search(self.index, dense_matrix(queries), depth, progress)

    def among(self, positions: Positions) -> FlatSearcher:
        """Return a searcher of these chunks: a score depends on no other vector."""
        return FlatSearcher(self.index.among(positions))
