"""``type: maxsim``: late interaction (MaxSim) over the token vectors of any bi-encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assets.models.loading import PACKAGES
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.token_encoder import TokenEncoder, maxsim
from rag_assets.models.vector_cache import TokenVectors
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace

BLOCK = 64
"""Queries whose documents are looked up at once."""


KEPT_BYTES = 512 * 2**20
"""Token vectors of documents that stay in memory between blocks."""


class MaxSim(RerankedRetriever):
    """Reranking by late interaction: every query token takes its best document token.

    It needs no model of its own: any bi-encoder's token vectors serve, and they are cached. A model
    that was trained for it (ColBERT) is read as it was trained.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    scores_pairs: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = PACKAGES

    type: Literal["maxsim"]
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the token vectors of queries and documents."""
        encoder = self._encoder()
        return {"query": encoder.describe("query"), "document": encoder.describe("document")}

    def tokenizer_files(self) -> ModelFiles:
        """Return the model's files."""
        return resolve_model(self.model)

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Score every pair by the mean of the highest cosines."""
        encoder = self._encoder(workspace)
        with workspace.progress("rerank", len(candidates)) as advance:
            return Reranked(rerank_by_maxsim(candidates, encoder, advance))

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Embed the query past the cache, and score."""
        encoder = self._encoder(workspace)
        self._encoder().encode([candidates.query], kind="query")
        rerank_by_maxsim([candidates], encoder)
        return True

    def _encoder(self, workspace: Workspace = NO_WORKSPACE) -> TokenEncoder:
        return TokenEncoder(**workspace.encoder_options(self, "token_vectors"))


def rerank_by_maxsim(
    candidates: Sequence[Candidates],
    encoder: TokenEncoder,
    progress: Callable[[int], None] | None = None,
) -> list[Scores]:
    """Return the MaxSim score of every candidate of every query.

    Args:
        candidates: of each query.
        encoder: gives token vectors.
        progress: called with the number of queries done so far.

    Raises:
        ModelUnavailable: the model cannot be loaded.
    """
    queries = encoder.encode([one.query for one in candidates], kind="query")
    kept: dict[str, TokenVectors] = {}
    scores: list[Scores] = []
    for start in range(0, len(candidates), BLOCK):
        block = candidates[start : start + BLOCK]
        wanted = dict.fromkeys(text for one in block for text in one.texts)
        unknown = [text for text in wanted if text not in kept]
        kept |= encoder.encode(unknown, kind="document") if unknown else {}
        for one in block:
            own = queries[one.query]
            scores.append(np.array([maxsim(own, kept[text]) for text in one.texts]))
        if sum(vectors.nbytes for vectors in kept.values()) > KEPT_BYTES:
            kept = {}
        if progress is not None:
            progress(len(scores))
    return scores
