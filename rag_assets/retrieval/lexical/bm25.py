"""``type: bm25``: lexical retrieval by BM25 over analysed words, with or without feedback.

With pseudo-relevance feedback (RM3) a query grows by words of the chunks that it finds first.
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
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError
from rag_assets.options import Number
from rag_assets.ordering import Hits, best_above_zero
from rag_assets.package_versions import version
from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts
from rag_assets.retrieval.lexical.analyzers import analyze_all, analyzer_versions
from rag_assets.retrieval.lexical.bm25_variants import resolve_delta, resolve_variant
from rag_assets.retrieval.lexical.builtin_engine import BuiltinEngine
from rag_assets.retrieval.lexical.index import (
    LexicalIndex,
    TermVectors,
    engine_code,
    write_index,
)
from rag_assets.retrieval.lexical.rank_bm25_engine import RankBm25Engine
from rag_assets.retrieval.lexical.word_engine import WordEngine
from rag_assets.retrieval.lexical.word_retriever import AnalysedRetriever
from rag_assets.retrieval.retriever import IndexSearcher, Rm3Expansion, Searcher, WindowExpansion

_BUILD: Mapping[str, Callable[..., WordEngine]] = {
    "builtin": BuiltinEngine.build,
    "rank_bm25": RankBm25Engine.build,
}

Expansion = Annotated[WindowExpansion | Rm3Expansion, Field(discriminator="type")]


class BM25(AnalysedRetriever):
    """Lexical retrieval: BM25 over analysed words.

    ``variant`` is the formula: with ``engine: builtin`` ``lucene`` (the default), ``robertson``,
    ``atire``, ``bm25l`` or ``bm25plus``; with ``rank_bm25``, the reference implementation,
    ``okapi`` (its default) or ``bm25plus``. ``delta`` belongs to ``bm25l`` and ``bm25plus``, and is
    0.5 and 1 by default. ``expand: {type: rm3}`` searches again, with words of what is found first.
    """

    search_kind: ClassVar[str | None] = "bm25"

    type: Literal["bm25"]
    engine: Literal["builtin", "rank_bm25"] = "builtin"
    variant: str | None = Field(default=None, validate_default=True)
    k1: Number = Field(default=1.2, ge=0)
    b: Number = Field(default=0.75, ge=0, le=1)
    delta: Number | None = Field(default=None, validate_default=True)
    expand: Expansion | None = None  # type: ignore[assignment]

    @field_validator("variant")
    @classmethod
    def _engine_computes_it(cls, variant: str | None, info: ValidationInfo) -> str | None:
        if "engine" not in info.data:  # refused already
            return variant
        try:
            return resolve_variant(info.data["engine"], variant)
        except UsageError as error:
            raise ValueError(str(error)) from error

    @field_validator("delta")
    @classmethod
    def _variant_has_it(cls, delta: float | None, info: ValidationInfo) -> float | None:
        if not info.data.get("variant"):
            return delta
        try:
            return resolve_delta(info.data["variant"], delta)
        except UsageError as error:
            raise ValueError(str(error)) from error

    @property
    def feedback(self) -> Rm3Expansion | None:
        """How queries grow; None: not at all."""
        return self.expand if isinstance(self.expand, Rm3Expansion) else None

    @property
    def indexes_texts(self) -> bool:
        """Not with feedback, which is of the words of whole chunks."""
        return self.feedback is None

    def index_options(self) -> Mapping[str, Any]:
        """Return the options of the index; for feedback it also holds the words of each chunk."""
        held = {"term_vectors": True} if self.feedback else {}
        return {**super().index_options(), **held}

    def search_config(self) -> Mapping[str, Any]:
        """Return the options of the search, with those of the feedback."""
        own = {"expand": self.feedback.model_dump(mode="json")} if self.feedback else {}
        return {**super().search_config(), **own}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the engine and the analyzer."""
        packages = ("rank-bm25",) if self.engine == "rank_bm25" else ()
        return {name: version(name) for name in packages} | analyzer_versions(self.full_analyzer)

    def code_roots(self) -> list[Root]:
        """Return the roots with those of the engine."""
        own = f"{__name__}:_BUILD[{self.engine}]"
        return [*super().code_roots(), own, *engine_code(self.engine)]

    def build_of(self, analysed: AnalysedTexts, folder: Path) -> Mapping[str, Any]:
        """Weight the words."""
        variant = resolve_variant(self.engine, self.variant)
        engine = _BUILD[self.engine](analysed.tokens, self.k1, self.b, variant, self.delta)
        held = self.feedback is not None
        return write_index(analysed, self.engine, engine, folder, term_vectors=held)

    def open(self, folder: Path) -> Searcher[Sequence[str]]:
        """Open the index."""
        if self.feedback is None:
            return super().open(folder)
        return FeedbackSearcher(LexicalIndex.load(folder), TermVectors.load(folder), self.feedback)


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
        counts = vectors.of_chunk(chunk)
        length = sum(counts.values())
        for token, n in counts.items():
            weights[token] += score * n / length
    best = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[: feedback.terms]
    total = fsum(weight for _, weight in best)
    return {token: weight / total for token, weight in best}


@dataclass(frozen=True)
class FeedbackSearcher(IndexSearcher[LexicalIndex]):
    """An opened index that is searched twice: the second time for the expanded query."""

    vectors: TermVectors
    feedback: Rm3Expansion

    def search(
        self,
        queries: Sequence[str],
        depth: int,
        progress: Callable[[int], None] | None = None,
    ) -> list[Hits]:
        """Return for each query, expanded, the chunks that score above 0, at most ``depth``.

        Order and arguments are those of :class:`.index.WordSearcher`. A query without hits is not
        expanded, and has none.

        Raises:
            UsageError: ``depth`` is below 1.
        """
        index, feedback = self.index, self.feedback
        hits: list[Hits] = []
        analysed = analyze_all(index.analyzer, queries)
        unexpanded = index.engine.best(analysed, index.ids_rank, feedback.documents)
        for tokens, first in zip(analysed, unexpanded, strict=True):
            has_hits = bool(len(first.positions))
            weights = expanded(tokens, first, self.vectors, feedback) if has_hits else {}
            scores = np.zeros(len(index.chunk_ids))
            for token, weight in weights.items():
                scores += weight * index.engine.scores([token])
            hits.append(best_above_zero(scores, index.ids_rank, depth))
            if progress is not None:
                progress(len(hits))
        return hits
