"""``type: bm25``: lexical retrieval by BM25 over analysed words, with or without feedback.

With N chunks of which n hold the token t, f occurrences of t in the chunk d, |d| tokens in d, avgdl
tokens in a chunk on average, K = k1 * (1 - b + b * |d| / avgdl), and
c = f / (1 - b + b * |d| / avgdl), a token t of the query that occurs f > 0 times in d adds::

    lucene     ln(1 + (N - n + 0.5) / (n + 0.5))       * f / (f + K)
    robertson  max(0, ln((N - n + 0.5) / (n + 0.5)))   * f / (f + K)
    atire      ln(N / n)                               * (k1 + 1) * f / (f + K)
    bm25l      ln((N + 1) / (n + 0.5))                 * (k1 + 1) * (c + delta) / (k1 + c + delta)
    bm25plus   ln((N + 1) / n)                         * ((k1 + 1) * f / (f + K) + delta)
    okapi      ln((N - n + 0.5) / (n + 0.5))           * (k1 + 1) * f / (f + K)

and a token that does not occur in d adds nothing; one that is repeated in the query counts as often
as it occurs. ``robertson`` and ``atire`` give 0 for a token in at least half of the chunks, or in
all: chunks that hold nothing else of the query are no hits. The idf of ``okapi`` is that of the
package rank-bm25: where it is negative, a quarter of the mean idf of all tokens.

Sources: Kamphuis, de Vries, Boytsov, Lin: Which BM25 Do You Mean? (ECIR 2020), table 1; for bm25l
Lv and Zhai: When Documents Are Very Long, BM25 Fails! (SIGIR 2011); for bm25plus Lv and Zhai:
Lower-Bounding Term Frequency Normalization (CIKM 2011); for okapi Trotman, Jia, Crane: Towards an
Efficient and Effective Search Engine (2012). Delta counts for tokens that query and chunk share;
for absent tokens too, as some packages have it, it adds the same to every chunk.

Weights have the bits that bm25s 0.3.16 computes in float64, and those of ``okapi`` the bits of
rank-bm25 0.2.2: the operations and their order are the same, and the logarithm is that of Python.

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

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from math import fsum, log
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from rank_bm25 import BM25Okapi

from rag_assets.options import KeyProblem, Number
from rag_assets.ordering import Hits
from rag_assets.package_versions import version
from rag_assets.retrieval.array_folder import ArrayFolder, Floats, Ints, Segment, table_end
from rag_assets.retrieval.base import QuerySearcher, Rm3Expansion, Searcher, WindowExpansion
from rag_assets.retrieval.lexical.chunk_tokens import TOKENS, ChunkTokens
from rag_assets.retrieval.lexical.weighed_word import Weigh
from rag_assets.retrieval.lexical.words import AnalysedRetriever, Repeats, Vocabulary, WordIndex

Variant = Literal["lucene", "robertson", "atire", "bm25l", "bm25plus", "okapi"]

DEFAULT_DELTA: Mapping[str, float] = {"bm25l": 0.5, "bm25plus": 1.0}
"""Variant with the parameter -> the value that its authors propose."""

TokensOf = Callable[[int], Sequence[str]]
"""The position of a chunk -> its tokens."""

Expansion = Annotated[WindowExpansion | Rm3Expansion, Field(discriminator="type")]


class BM25(AnalysedRetriever):
    """Lexical retrieval: BM25 over analysed words.

    ``variant`` is the formula: ``lucene`` (the default), ``robertson``, ``atire``, ``bm25l``,
    ``bm25plus``, or ``okapi``, that of the package rank-bm25. ``delta`` belongs to ``bm25l`` and
    ``bm25plus``, and is 0.5 and 1 by default. ``expand: {type: rm3}`` searches again, with words of
    what is found first.
    """

    search_kind: ClassVar[str | None] = "bm25"

    type: Literal["bm25"]
    variant: Variant = "lucene"
    k1: Number = Field(default=1.2, ge=0)
    b: Number = Field(default=0.75, ge=0, le=1)
    delta: Number | None = Field(default=None, gt=0)
    expand: Expansion | None = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _delta_of_the_variant(self) -> Self:
        if self.delta is not None and self.variant not in DEFAULT_DELTA:
            owners = " and ".join(DEFAULT_DELTA)
            problem = f"delta is only for the variants {owners}, not for {self.variant}"
            raise KeyProblem(("delta",), problem)
        return self

    @property
    def feedback(self) -> Rm3Expansion | None:
        """How queries grow; None: not at all."""
        return self.expand if isinstance(self.expand, Rm3Expansion) else None

    @property
    def indexes_texts(self) -> bool:
        return self.feedback is None

    def index_options(self) -> Mapping[str, Any]:
        delta = DEFAULT_DELTA.get(self.variant) if self.delta is None else self.delta
        return {**super().index_options(), "delta": delta, "feedback": self.feedback is not None}

    def search_config(self) -> Mapping[str, Any]:
        expand = {"expand": self.feedback.model_dump(mode="json")} if self.feedback else {}
        return {**super().search_config(), **expand}

    def versions(self) -> Mapping[str, str]:
        package = {"rank-bm25": version("rank-bm25")} if self.variant == "okapi" else {}
        return {**super().versions(), **package}

    @property
    def repeats(self) -> Repeats:
        return "added"

    def tables(self) -> Sequence[str]:
        return super().tables() if self.feedback is None else (*super().tables(), TOKENS)

    def weigher(self, index: WordIndex) -> Weigh:
        """Return the formula of the variant, with the statistics of an index."""
        lengths, variant, k1, b = index.lengths, self.variant, self.k1, self.b
        delta = self.delta or DEFAULT_DELTA.get(variant, 0.0)
        norms = 1 - b + b * lengths / (lengths.mean() if lengths.any() else 1)
        least = cache(partial(_least_idf, index.segments, lengths.size))

        @cache
        def of_word(holding: int) -> Sequence[float]:
            idf = _IDF[variant](lengths.size, holding)
            if variant == "okapi" and idf < 0:
                idf = least()
            # the logarithm of numpy: the bits are those of bm25s
            added = delta * np.log((lengths.size + 1) / np.array([holding])).item()
            return idf, added

        def weights_in(
            chunks: Ints, f: Floats, idf: float | Floats, added: float | Floats
        ) -> Floats:
            norm = norms[chunks]
            if variant in ("lucene", "robertson"):
                saturation = f / (k1 * norm + f)
            elif variant == "bm25l":
                c = f / norm
                saturation = ((k1 + 1) * (c + delta)) / (k1 + c + delta)
            else:
                saturation = (f * (k1 + 1)) / (f + k1 * norm)
            weights: Floats = idf * saturation
            if variant == "bm25plus":
                weights = weights + added
            if variant == "bm25l":  # bm25s subtracts and adds what an absent token would have
                absent = idf * (((k1 + 1) * delta) / (k1 + delta))
                weights = (weights - absent) + absent
            return weights

        return Weigh(of_word, weights_in)

    def open(self, folder: Path) -> Searcher[Sequence[str]]:
        index = self.opened(folder)
        if self.feedback is None:
            return index
        return FeedbackSearcher(index.chunk_ids, index, tokens_of(index, folder), self.feedback)


_IDF: Mapping[str, Callable[[int, int], float]] = {
    "lucene": lambda n, held: log(1 + (n - held + 0.5) / (held + 0.5)),
    "robertson": lambda n, held: log(max(1, (n - held + 0.5) / (held + 0.5))),
    "atire": lambda n, held: log(n / held),
    "bm25l": lambda n, held: log((n + 1) / (held + 0.5)),
    "bm25plus": lambda n, held: log((n + 1) / held),
    "okapi": lambda n, held: log(n - held + 0.5) - log(held + 0.5),
}
"""Variant -> weight of a token that ``held`` of ``n`` chunks hold; okapi's may be negative."""


def _least_idf(segments: Sequence[Segment], n_chunks: int) -> float:
    """Return what rank-bm25 has in place of a negative idf: a share of the mean idf of all tokens.

    The mean depends on nothing but how many chunks hold each token. So the package gets texts that
    say just this: the first has all tokens, in the order in which their idf is added.
    """
    holding = Vocabulary.of(segments).holding
    often = np.argsort(-holding, kind="stable")
    n_held = holding.size - np.searchsorted(np.sort(holding), np.arange(1, n_chunks), "right")
    texts = [often[:n].tolist() for n in n_held]
    okapi = BM25Okapi([list(range(holding.size)), *texts])
    return float(okapi.epsilon * okapi.average_idf)


def tokens_of(index: WordIndex, folder: Path) -> TokensOf:
    """Return what gives the tokens of a chunk, of an index that has them."""
    files = ArrayFolder(folder)
    parts = [ChunkTokens.load(files, table_end(n)) for n in range(len(index.segments))]
    starts = [0, *accumulate(part.lengths.size for part in parts)]
    return partial(_tokens, parts, starts)


def _tokens(parts: Sequence[ChunkTokens], starts: Sequence[int], position: int) -> list[str]:
    number = bisect_right(starts, position) - 1
    return parts[number].of_chunk(position - starts[number])


def expanded(
    query: Sequence[str], hits: Hits, tokens_of: TokensOf, feedback: Rm3Expansion
) -> dict[str, float]:
    """Return token -> weight of the expanded query, in ascending order of the tokens.

    ``hits`` are those of the query, best first, with scores above 0.
    """
    weights: defaultdict[str, float] = defaultdict(float)
    first, scores = hits.positions[: feedback.documents], hits.scores[: feedback.documents]
    for chunk, score in zip(first.tolist(), scores.tolist(), strict=True):
        tokens = tokens_of(chunk)
        for token, n in Counter(tokens).items():
            weights[token] += score * n / len(tokens)
    best = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[: feedback.terms]
    if not best:
        return {}
    total = fsum(weight for _, weight in best)
    added = {token: weight / total for token, weight in best}
    given = {token: n / len(query) for token, n in Counter(query).items()}
    share, either = feedback.original_weight, sorted({*given, *added})
    return {t: share * given.get(t, 0.0) + (1 - share) * added.get(t, 0.0) for t in either}


@dataclass(frozen=True)
class FeedbackSearcher(QuerySearcher[Sequence[str]]):
    """An opened index that is searched twice: the second time for the expanded query."""

    chunk_ids: Sequence[str]
    index: WordIndex
    tokens_of: TokensOf
    feedback: Rm3Expansion

    def read(self, queries: Sequence[str]) -> Sequence[Sequence[str]]:
        return self.index.read(queries)

    def ranked(self, query: Sequence[str], depth: int) -> Hits:
        """Return the chunks that score above 0 for one query, expanded, at most ``depth``.

        Order is that of :class:`.words.WordIndex`. A query without hits is not expanded, and has
        none.
        """
        first = self.index.ranked(query, self.feedback.documents)
        weights = expanded(query, first, self.tokens_of, self.feedback)
        self.index.look_up(weights)
        words = [(self.index.word(token), weight) for token, weight in weights.items()]
        return self.index.best([pair for pair in words if pair[0].holding], depth)
