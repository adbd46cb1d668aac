"""``type: late_interaction``: one vector a token, searched exactly by MaxSim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.models.encoder import Kind, Progress
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.token_encoder import TokenEncoder
from rag_assets.ordering import Hits, Positions
from rag_assets.package_versions import version
from rag_assets.retrieval.base import EmbeddingRetriever
from rag_assets.retrieval.dense import token_index
from rag_assets.retrieval.dense.measured_embedding import measured
from rag_assets.retrieval.dense.query_vectors import token_table, token_vectors
from rag_assets.retrieval.workspace import ALONE, Workspace
from rag_assets.store.token_vector_cache import TokenVectors


class LateInteraction(EmbeddingRetriever):
    """Late interaction with every chunk: each query token takes its best token of the chunk.

    ``model`` is one that was trained for it (ColBERT), or any bi-encoder. The score is the mean
    over the query tokens of the highest cosine, as that of ``maxsim``.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"

    type: Literal["late_interaction"]
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        """Return weights, tokenizer, prompt, maximum length and the like."""
        return self._encoder().describe(kind)

    def read_by(self) -> ModelFiles:
        """Return the model's files."""
        return resolve_model(self.model)

    def index_options(self) -> Mapping[str, Any]:
        """Return nothing of its own: all that counts is in :meth:`describe`."""
        return {}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        names = ("sentence-transformers", "torch", "transformers")
        return {name: version(name) for name in names}

    def search_versions(self) -> Mapping[str, str]:
        """Return the version of what searches."""
        return {"numpy": version("numpy")}

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write the vectors of their tokens; ``mean_tokens`` is a fact."""
        vectors = self._vectors(texts, "document", workspace)
        return token_index.build(chunks.column("chunk_id").to_pylist(), vectors, folder)

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        texts = variants.column("text").to_pylist()
        return token_table(variants, self._vectors(texts, "query", workspace))

    def open(self, folder: Path) -> TokenSearcher:
        """Open the vectors."""
        return TokenSearcher(token_index.load(folder))

    def _vectors(
        self, texts: Sequence[str], kind: Kind, workspace: Workspace
    ) -> list[TokenVectors]:
        def encode(progress: Progress) -> list[TokenVectors]:
            found = self._encoder(workspace).encode(texts, kind=kind, progress=progress)
            return [found[text] for text in texts]

        return measured(encode, texts, kind, workspace)

    def _encoder(self, workspace: Workspace = ALONE) -> TokenEncoder:
        return TokenEncoder(
            self.model,
            cache=workspace.cache_of("token_vectors"),
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
            compute=workspace.compute,
            counted=workspace.cache_of("token_counts"),
        )


@dataclass(frozen=True)
class TokenSearcher:
    """Token vectors that are searched exactly."""

    index: token_index.TokenIndex

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query."""
        vectors = token_vectors(queries, self.index.vectors.shape[1])
        return token_index.search(self.index, vectors, depth, progress)

    def among(self, positions: Positions) -> TokenSearcher:
        """Return a searcher of these chunks: a score depends on no other chunk."""
        return TokenSearcher(self.index.among(positions))
