"""Reranking pair by pair by a local model, with what was scored and what was known measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.models.batches import Lengths
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.reranking.pair_scores import rerank_by_pairs
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.store.pair_score_cache import Pair


class PairScorer(Protocol):
    """A model that reads a query with one document."""

    def describe(self) -> Mapping[str, Any]:
        """Return all that determines a score besides the two texts."""

    def score(self, pairs: Sequence[Pair]) -> Scores:
        """Return one score a pair, float64."""

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""

    def lengths(self, pairs: Sequence[Pair], counted: Path | None) -> Lengths:
        """Return by what pairs are sorted, with the folder of the numbers that are known."""


def scored_by_pairs(
    candidates: Sequence[Candidates], scorer: PairScorer, workspace: Workspace
) -> list[Scores]:
    """Return the score of every candidate of every query, from the cache or by the model."""
    n_new, started = 0, time.perf_counter()
    with workspace.progress("rerank", len(candidates)) as advance:

        def count(done: int, total: int) -> None:
            nonlocal n_new
            n_new = total
            advance(done, total)

        cache = workspace.cache_of("pair_scores")
        lengths = partial(scorer.lengths, counted=workspace.cache_of("token_counts"))
        code = filled_by(f"{__name__}:scored_by_pairs", root_of(type(scorer), "score"))
        described, compute = {**scorer.describe(), "code": code}, workspace.compute
        scores = rerank_by_pairs(
            candidates, scorer.score, described, cache, count, compute, lengths
        )
    n_pairs = len({(one.query, text) for one in candidates for text in one.texts})
    workspace.measure(Usage("ask", n_new, time.perf_counter() - started))
    workspace.measure(Usage("ask", n_pairs - n_new, cached=True))
    return scores


def scored_now(one: Candidates, scorer: PairScorer) -> bool:
    """Score the pairs of a query past the cache; return whether the model was in memory for it."""
    if not scorer.is_loaded:
        return False
    scorer.score([Pair(one.query, text) for text in dict.fromkeys(one.texts)])
    return True
