"""Pseudo-relevance feedback: a query grows by words of the chunks that it finds first (RM3).

Lavrenko and Croft: Relevance-Based Language Models, SIGIR 2001; Abdul-Jaleel et al.: UMass at TREC
2004: Novelty and HARD. With f(w, x) occurrences of w in x, |x| words in x, and s(d) the score of
the chunk d, one of the first ``documents`` D of the query q::

    feedback(w)  = sum over d in D of  s(d) / (sum of s over D) * f(w, d) / |d|
    weight(w)    = original_weight * f(w, q) / |q| + (1 - original_weight) * feedback(w)
    score(q, d)  = sum over w of weight(w) * score of the one-word query w in d

where of ``feedback`` only the ``terms`` largest are kept, scaled to sum to 1. The score stands in
the place of the query's likelihood, as in Lucene-based systems. Words of equal weight are taken in
their own order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

from rag_assets.ordering import Hits, best_above_zero
from rag_assets.retrieval.lexical.analyzers import analyze_all
from rag_assets.retrieval.lexical.index import LexicalIndex, TermVectors
from rag_assets.retrieval.retriever import Rm3Expansion


@dataclass(frozen=True)
class FeedbackSearcher:
    """An opened index that is searched twice: the second time for the expanded query."""

    index: LexicalIndex
    vectors: TermVectors
    feedback: Rm3Expansion

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.chunk_ids

    def search(
        self, queries: Sequence[str], depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query, expanded."""
        return search_expanded(self.index, self.vectors, self.feedback, queries, depth, progress)


def expanded(
    query: Sequence[str], hits: Hits, vectors: TermVectors, feedback: Rm3Expansion
) -> dict[str, float]:
    """Return token -> weight of the expanded query, in ascending order of the tokens.

    Args:
        query: tokens of the query.
        hits: of the query, best first, with scores above 0.
        vectors: of all chunks.
        feedback: how much is added.
    """
    own = {token: n / len(query) for token, n in Counter(query).items()}
    found = _feedback_words(hits, vectors, feedback)
    if not found:
        return dict(sorted(own.items()))
    share = feedback.original_weight
    tokens = sorted({*own, *found})
    return {t: share * own.get(t, 0.0) + (1 - share) * found.get(t, 0.0) for t in tokens}


def _feedback_words(
    hits: Hits, vectors: TermVectors, feedback: Rm3Expansion
) -> Mapping[str, float]:
    chunks = hits.positions[: feedback.documents].tolist()
    scores = hits.scores[: feedback.documents].tolist()
    weights: defaultdict[str, float] = defaultdict(float)
    for chunk, score in zip(chunks, scores, strict=True):
        counts = vectors.of(chunk)
        length = sum(counts.values())
        for token, n in counts.items():
            weights[token] += score * n / length
    best = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[: feedback.terms]
    total = fsum(weight for _, weight in best)
    return {token: weight / total for token, weight in best}


def search_expanded(
    index: LexicalIndex,
    vectors: TermVectors,
    feedback: Rm3Expansion,
    queries: Sequence[str],
    k: int,
    progress: Callable[[int], None] | None = None,
) -> list[Hits]:
    """Return for each query, expanded, the chunks that score above 0, at most ``k``.

    Order and arguments are those of :func:`.index.search`. A query without hits
    is not expanded, and has none.

    Raises:
        UsageError: ``k`` is below 1.
    """
    found: list[Hits] = []
    analysed = analyze_all(index.analyzer, queries)
    unexpanded = index.engine.best(analysed, index.ids_rank, feedback.documents)
    for tokens, first in zip(analysed, unexpanded, strict=True):
        weights = expanded(tokens, first, vectors, feedback) if len(first.positions) else {}
        scores = np.zeros(len(index.chunk_ids))
        for token, weight in weights.items():
            scores += weight * index.engine.scores([token])
        found.append(best_above_zero(scores, index.ids_rank, k))
        if progress is not None:
            progress(len(found))
    return found
