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
rank-bm25 0.2.2: the operations and their order are the same, and the logarithm is that of Python
for each number of chunks once.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, log
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from rank_bm25 import BM25Okapi

from rag_assets.options import KeyProblem, Number
from rag_assets.ordering import Hits, best_above_zero
from rag_assets.package_versions import version
from rag_assets.retrieval.array_folder import ArrayFolder, Floats, SparseIndex
from rag_assets.retrieval.base import QuerySearcher, Rm3Expansion, Searcher, WindowExpansion
from rag_assets.retrieval.lexical.tokens import AnalysedTexts, ChunkTokens, Longs
from rag_assets.retrieval.lexical.words import AnalysedRetriever, WordIndex

Variant = Literal["lucene", "robertson", "atire", "bm25l", "bm25plus", "okapi"]

DEFAULT_DELTA: Mapping[str, float] = {"bm25l": 0.5, "bm25plus": 1.0}
"""Variant with the parameter -> the value that its authors propose."""

ENTRIES_AT_ONCE = 1 << 16
"""Entries that are weighed at a time, and those of one token more: they stay in memory that is used
again, which takes longer to get from the system than to fill."""

_TERMS = "terms."
"""Before the names of the files with the tokens of chunks."""

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

    def weighted(self, analysed: AnalysedTexts) -> WordIndex:
        counts = analysed.counts()
        delta = self.delta or DEFAULT_DELTA.get(self.variant, 0.0)
        idf = inverse_frequencies(self.variant, counts, analysed.tokens)
        lengths = analysed.tokens.lengths
        weights = bm25_weights(counts, lengths, idf, self.variant, self.k1, self.b, delta)
        return WordIndex.of(analysed, counts, weights, "added")

    def build_of(self, analysed: AnalysedTexts, folder: Path) -> Mapping[str, Any]:
        if self.feedback is not None:
            analysed.tokens.save(ArrayFolder(folder), _TERMS)
        return super().build_of(analysed, folder)

    def open(self, folder: Path) -> Searcher[Sequence[str]]:
        index = WordIndex.load(folder)
        if self.feedback is None:
            return index
        tokens = ChunkTokens.load(ArrayFolder(folder), _TERMS)
        return FeedbackSearcher(index.chunk_ids, index, tokens, self.feedback)


_IDF: Mapping[str, Callable[[int, int], float]] = {
    "lucene": lambda n, held: log(1 + (n - held + 0.5) / (held + 0.5)),
    "robertson": lambda n, held: log(max(1, (n - held + 0.5) / (held + 0.5))),
    "atire": lambda n, held: log(n / held),
    "bm25l": lambda n, held: log((n + 1) / (held + 0.5)),
    "bm25plus": lambda n, held: log((n + 1) / held),
}
"""Variant -> weight of a token that ``held`` of ``n`` chunks hold; okapi's is the package's."""


def inverse_frequencies(variant: str, counts: SparseIndex, tokens: ChunkTokens) -> Floats:
    """Return the idf of each token, float64, shape (tokens,); that of okapi by rank-bm25."""
    if variant == "okapi" and tokens.numbers.size:
        chunks = np.split(tokens.numbers, np.cumsum(tokens.lengths)[:-1])
        by_token = BM25Okapi([chunk.tolist() for chunk in chunks]).idf
        return np.array([by_token[number] for number in range(len(tokens.words))])
    different, places = np.unique(counts.holding, return_inverse=True)
    n_chunks = tokens.lengths.size
    each = [_IDF[variant](n_chunks, held) for held in different.tolist()]
    idf: Floats = np.array(each, dtype=np.float64)[places]
    return idf


def bm25_weights(
    counts: SparseIndex,
    lengths: Longs,
    idf: Floats,
    variant: str,
    k1: float,
    b: float,
    delta: float,
) -> Floats:
    """Return the weight of each entry of ``counts``, float64, shape (entries,)."""
    weights = np.empty(counts.indices.size)
    if not weights.size:
        return weights  # the mean length would be nothing to divide by
    norms = 1 - b + b * lengths / lengths.mean()
    for tokens in _token_runs(counts.indptr):
        entries = slice(int(counts.indptr[tokens.start]), int(counts.indptr[tokens.stop]))
        held = np.diff(counts.indptr[tokens.start : tokens.stop + 1])
        f, norm = counts.data[entries].astype(np.float64), norms[counts.indices[entries]]
        if variant in ("lucene", "robertson"):
            saturation = f / (k1 * norm + f)
        elif variant == "bm25l":
            c = f / norm
            saturation = ((k1 + 1) * (c + delta)) / (k1 + c + delta)
        else:
            saturation = (f * (k1 + 1)) / (f + k1 * norm)
        part = np.repeat(idf[tokens], held) * saturation
        if variant == "bm25plus":
            part = part + np.repeat(delta * np.log((lengths.size + 1) / held), held)
        if variant == "bm25l":  # bm25s subtracts and adds what an absent token would have
            absent = np.repeat(idf[tokens] * (((k1 + 1) * delta) / (k1 + delta)), held)
            part = (part - absent) + absent
        weights[entries] = part
    return weights


def _token_runs(indptr: Longs) -> Iterator[slice]:
    """Yield runs of tokens with about :data:`ENTRIES_AT_ONCE` entries each."""
    bounds = np.searchsorted(indptr, np.arange(0, indptr[-1], ENTRIES_AT_ONCE))
    ends = np.unique([*bounds.tolist(), indptr.size - 1]).tolist()
    for start, stop in pairwise(ends):
        yield slice(start, stop)


def expanded(
    query: Sequence[str], hits: Hits, chunks: ChunkTokens, feedback: Rm3Expansion
) -> dict[str, float]:
    """Return token -> weight of the expanded query, in ascending order of the tokens.

    ``hits`` are those of the query, best first, with scores above 0; ``chunks`` has all tokens.
    """
    weights: defaultdict[str, float] = defaultdict(float)
    first, scores = hits.positions[: feedback.documents], hits.scores[: feedback.documents]
    for chunk, score in zip(first.tolist(), scores.tolist(), strict=True):
        tokens = chunks.of_chunk(chunk)
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
    tokens: ChunkTokens
    feedback: Rm3Expansion

    def read(self, queries: Sequence[str]) -> Sequence[Sequence[str]]:
        return self.index.read(queries)

    def ranked(self, query: Sequence[str], depth: int) -> Hits:
        """Return the chunks that score above 0 for one query, expanded, at most ``depth``.

        Order is that of :class:`.words.WordIndex`. A query without hits is not expanded, and has
        none.
        """
        index, vocabulary = self.index, self.index.vocabulary
        first = index.ranked(query, self.feedback.documents)
        weights = expanded(query, first, self.tokens, self.feedback)
        held = {token: weight for token, weight in weights.items() if token in vocabulary}
        scores = index.sums([vocabulary[token] for token in held], list(held.values()))
        return best_above_zero(scores, index.ids_rank, depth)
