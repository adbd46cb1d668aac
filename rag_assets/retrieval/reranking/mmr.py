"""``type: mmr``: maximal marginal relevance, for results that are not all alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.unit_vectors import Vectors
from rag_assets.options import Number
from rag_assets.package_versions import version
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.mmr_scores import rerank_by_mmr
from rag_assets.retrieval.workspace import ALONE, Workspace


class MMR(RerankedRetriever):
    """Reranking for diversity: like the query, unlike what stands before.

    ``lambda`` is the weight of being like the query: 1 orders by it alone. Likeness is the cosine
    of the vectors of ``model``, an embedding model; what another retriever embedded is looked up.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"

    type: Literal["mmr"]
    lambda_: Number = Field(default=0.5, ge=0, le=1, alias="lambda")
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    @property
    def compares_queries(self) -> bool:
        """No: a score is made of ranks."""
        return False

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        names = ("sentence-transformers", "torch", "transformers")
        return {name: version(name) for name in names}

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the vectors of queries and documents."""
        encoder = self._encoder()
        return {"query": encoder.describe("query"), "document": encoder.describe("document")}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Put the candidates of each query in the order in which they are chosen."""
        encoder = self._encoder(workspace)
        with workspace.progress("rerank", len(candidates)) as advance:
            return Reranked(rerank_by_mmr(candidates, encoder, self.lambda_, advance))

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Embed the query past the cache, when the model is in memory, and choose."""
        encoder = self._encoder(workspace)
        if not encoder.is_loaded:
            return False
        encoder.embed_now([candidates.query], kind="query")
        rerank_by_mmr([candidates], encoder, self.lambda_)
        return True

    def document_vectors(self, texts: Sequence[str], workspace: Workspace) -> Vectors:
        """Return the unit vectors of documents, float32, shape (len(texts), dimension)."""
        return self._encoder(workspace).encode(texts, kind="document")

    def _encoder(self, workspace: Workspace = ALONE) -> Encoder:
        return Encoder(
            self.model,
            cache=workspace.cache_of("embeddings"),
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
            compute=workspace.compute,
        )
