"""``type: query_likelihood``: documents by how probable they make the question.

Sachan et al.: Improving passage retrieval with zero-shot question generation (UPR), EMNLP 2022:
documents are ordered by the mean log probability of the query's tokens q_1..q_n,

    1/n * sum over t of log P(q_t | prompt with the document, q_1..q_(t-1)).

The prompt is ``Passage: <document>`` and, on a line of its own, ``Query:``; the query follows after
a blank. Of a pair that is longer than the model reads, the document's end is cut; a query keeps at
most half of what the model reads. A query without a token scores 0 with every document.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from rag_assets.models.loading import default_device
from rag_assets.models.quiet import quiet_models
from rag_assets.package_versions import version
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.reranking.local_models import (
    LocalScorer,
    described_model,
)
from rag_assets.retrieval.reranking.pair_scores import scored_by_pairs, scored_now
from rag_assets.retrieval.workspace import Workspace
from rag_assets.store.number_caches import Pair

KIND = "causal language model"


BEFORE, AFTER = "Passage:", "\nQuery:"


LONGEST = 2048
"""After how many tokens a pair is cut when neither the model nor the configuration says it."""


class QueryLikelihood(RerankedRetriever):
    """Reranking by the mean log probability of the query under a causal language model (UPR).

    ``model`` is a folder or a name at the hub. A pair is cut after ``max_length`` tokens, by
    default as many as the model declares.
    """

    model_kind: ClassVar[str | None] = "transformers"
    scores_pairs: ClassVar[bool] = True

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


class QueryLikelihoodScorer(LocalScorer):
    """A causal language model; it is loaded for the first pair."""

    kind: ClassVar[str] = KIND

    def describe(self) -> Mapping[str, Any]:
        """Return all that determines the score of a pair, without loading the model.

        Raises:
            UsageError: ``max_length`` is more than the model can read.
        """
        described = described_model(self.files, self._max_length)
        prompt = [BEFORE, AFTER]
        return {
            **described,
            "max_length": described["max_length"] or LONGEST,
            "scorer": "query_likelihood",
            "prompt": prompt,
        }

    def score(self, pairs: Sequence[Pair]) -> Scores:
        """Return the mean log probability of each query's tokens; float64, shape (len(pairs),).

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        limit, files = int(self.describe()["max_length"]), self.files
        device = default_device()
        tokenizer, model = self._open_model(lambda: _load(files.path, files.weights_sha256, device))
        scores = np.zeros(len(pairs))
        for start in range(0, len(pairs), self._batch_size):
            batch = [
                _sequence(tokenizer, pair, limit)
                for pair in pairs[start : start + self._batch_size]
            ]
            with quiet_models():
                scores[start : start + len(batch)] = _mean_log_probabilities(model, batch)
        return scores


class _Sequence(NamedTuple):
    """The tokens of a pair; the last ``n_query`` are the query's."""

    ids: list[int]
    n_query: int


def _sequence(tokenizer: Any, pair: Pair, limit: int) -> _Sequence:  # noqa: ANN401 (transformers)
    """Return the tokens of a pair, at most ``limit``; parts are read one by one, so none merge."""

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    first = tokenizer.bos_token_id
    has_first = first is not None and first in tokenizer("")["input_ids"][:1]
    head = [*([first] if has_first else []), *ids(BEFORE)]
    tail = ids(AFTER)
    query = ids(f" {pair.query}" if pair.query else "")[: limit // 2]
    room = max(limit - len(head) - len(tail) - len(query), 0)
    document = ids(f" {pair.document}")[:room]
    return _Sequence([*head, *document, *tail, *query], len(query))


def _mean_log_probabilities(model: Any, batch: Sequence[_Sequence]) -> Scores:  # noqa: ANN401
    """Return the mean over each query's tokens; padding stands behind, where nothing looks."""
    import torch

    longest = max(len(one.ids) for one in batch)
    tokens = torch.zeros((len(batch), longest), dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, one in enumerate(batch):
        tokens[row, : len(one.ids)] = torch.tensor(one.ids)
        mask[row, : len(one.ids)] = 1
    # The token at position p is predicted by the output at p - 1.
    first = min(len(one.ids) - one.n_query for one in batch) - 1
    with torch.inference_mode():
        logits = _logits(model, tokens.to(model.device), mask.to(model.device), first)
        logs = torch.log_softmax(logits.float(), dim=-1).cpu().double()
    scores = np.zeros(len(batch))
    for row, one in enumerate(batch):
        if one.n_query:
            end = len(one.ids)
            wanted = tokens[row, end - one.n_query : end]
            places = torch.arange(end - one.n_query, end) - 1 - first
            scores[row] = float(logs[row, places, wanted].mean())
    return scores


def _logits(model: Any, tokens: Any, mask: Any, first: int) -> Any:  # noqa: ANN401 (torch)
    """Return the logits from position ``first`` on; of all positions they can fill the memory."""
    import torch

    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        kept = torch.arange(first, tokens.shape[1], device=tokens.device)
        return model(input_ids=tokens, attention_mask=mask, logits_to_keep=kept).logits
    return model(input_ids=tokens, attention_mask=mask).logits[:, first:]


@lru_cache(maxsize=1)
def _load(path: Path, weights_sha256: str, device: str) -> tuple[Any, Any]:
    """Load; the hash of the weights is there so that other weights at a path are loaded anew."""
    import torch

    with quiet_models():
        from transformers import AutoModelForCausalLM, AutoTokenizer

        local = {"local_files_only": True, "trust_remote_code": False}
        tokenizer: Any = AutoTokenizer.from_pretrained(path, **local)
        model: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, use_safetensors=True, **local
        )
    return tokenizer, model.to(device).eval()
