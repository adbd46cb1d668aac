"""``type: splade``: learned sparse vectors, searched exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.models.encoder import Progress
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.sparse_encoder import SparseTextEncoder
from rag_assets.models.truncation import count_truncated, truncation_facts
from rag_assets.ordering import Hits
from rag_assets.package_versions import version
from rag_assets.retrieval.base import EmbeddingRetriever
from rag_assets.retrieval.dense import sparse_index
from rag_assets.retrieval.dense.measured_embedding import measured
from rag_assets.retrieval.dense.query_vectors import sparse_table, sparse_vectors
from rag_assets.retrieval.workspace import ALONE, Workspace
from rag_assets.store.sparse_vector_cache import SparseVector

Kind = Literal["query", "document"]


class Splade(EmbeddingRetriever):
    """Learned sparse retrieval: a model weighs the words of its vocabulary for each text.

    ``model`` is one of sentence-transformers' sparse encoders, or a masked language model, which is
    pooled as in SPLADE v2. The prompts are put before every query or document; by default the
    model's own. The score is the inner product; a chunk that shares no word is not found.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    search_kind: ClassVar[str | None] = "scipy"

    type: Literal["splade"]
    model: str = Field(min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        """Return weights, tokenizer, prompt, maximum length and the like."""
        return self._encoder().describe(kind)

    def read_by(self) -> ModelFiles:
        """Return the model's files."""
        return self._encoder().files

    def index_options(self) -> Mapping[str, Any]:
        """Return nothing of its own: all that counts is in :meth:`describe`."""
        return {}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        names = ("sentence-transformers", "torch", "transformers")
        return {name: version(name) for name in names}

    def search_versions(self) -> Mapping[str, str]:
        """Return the version of what searches."""
        return {"scipy": version("scipy")}

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write their vectors.

        Among the facts are ``mean_components``, how many words a chunk has a weight for, and
        ``n_truncated``, how many chunks are longer than the model reads.
        """
        vectors = self._vectors(texts, "document", workspace)
        facts = sparse_index.build(chunks.column("chunk_id").to_pylist(), vectors, folder)
        encoder = self._encoder()
        counted = workspace.cache_of("token_counts")
        n_truncated = count_truncated(texts, encoder.files, encoder.prompt("document"), counted)
        return {**facts, **truncation_facts(n_truncated, len(texts))}

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        texts = variants.column("text").to_pylist()
        return sparse_table(variants, self._vectors(texts, "query", workspace))

    def encode_now(self, texts: Sequence[str]) -> bool:
        """Embed queries past the cache, when the model is in memory."""
        encoder = self._encoder()
        if not encoder.is_loaded:
            return False
        encoder.encode_now(texts, kind="query")
        return True

    def open(self, folder: Path) -> SparseSearcher:
        """Open the vectors."""
        return SparseSearcher(sparse_index.load(folder))

    def _vectors(
        self, texts: Sequence[str], kind: Kind, workspace: Workspace
    ) -> list[SparseVector]:
        def encode(progress: Progress) -> list[SparseVector]:
            return self._encoder(workspace).encode(texts, kind=kind, progress=progress)

        return measured(encode, texts, kind, workspace)

    def _encoder(self, workspace: Workspace = ALONE) -> SparseTextEncoder:
        return SparseTextEncoder(
            self.model,
            cache=workspace.cache_of("sparse_embeddings"),
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
            compute=workspace.compute,
            counted=workspace.cache_of("token_counts"),
        )


@dataclass(frozen=True)
class SparseSearcher:
    """Sparse vectors that are searched exactly."""

    index: sparse_index.SparseIndex

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return sparse_index.search(self.index, sparse_vectors(queries), depth, progress)
