"""``type: query_likelihood``: documents by how probable they make the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from rag_assets.package_versions import version
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.pair_scoring import scored_by_pairs, scored_now
from rag_assets.retrieval.reranking.query_likelihood_scores import QueryLikelihoodScorer
from rag_assets.retrieval.workspace import Workspace


class QueryLikelihood(RerankedRetriever):
    """Reranking by the mean log probability of the query under a causal language model (UPR).

    ``model`` is a folder or a name at the hub. A pair is cut after ``max_length`` tokens, by
    default as many as the model declares.
    """

    model_kind: ClassVar[str | None] = "transformers"

    type: Literal["query_likelihood"]
    model: str = Field(min_length=1)
    batch_size: int = Field(default=8, ge=1, strict=True)
    max_length: int | None = Field(default=None, ge=32, strict=True)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what scores."""
        return {name: version(name) for name in ("torch", "transformers")}

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results: not the name of the model's files."""
        return super().described(exclude=exclude | {"batch_size", "model", "max_length"})

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the score of a pair, by the model's files."""
        return {"model": self._scorer().describe()}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Score every new pair by the model."""
        return Reranked(scored_by_pairs(candidates, self._scorer(), workspace))

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Score the pairs of one query past the cache, when the model is in memory."""
        return scored_now(candidates, self._scorer())

    def _scorer(self) -> QueryLikelihoodScorer:
        return QueryLikelihoodScorer(
            self.model, max_length=self.max_length, batch_size=self.batch_size
        )
