"""Lexical retrieval over analysed words: the options that all such types share, and their index.

An index holds counts. What a word weighs in a chunk depends on all chunks, so it is computed when a
query has the word, and kept while the index is open: a changed chunk changes no count of others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, islice
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import field_validator

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError, allowed_names
from rag_assets.ordering import Hits, Positions, best_above_zero, best_of_each
from rag_assets.retrieval.array_folder import (
    COUNTED,
    ArrayFolder,
    Entries,
    Floats,
    Longs,
    Segment,
    numbers_of,
    sums,
    table_end,
)
from rag_assets.retrieval.base import LexicalRetriever, QuerySearcher, Report, Searcher
from rag_assets.retrieval.lexical.analyzers import (
    ANALYZERS,
    AUTO,
    analyze_all,
    analyzer_code,
    analyzer_versions,
    check_analyzer,
)
from rag_assets.retrieval.lexical.pruning import contenders
from rag_assets.retrieval.lexical.tokens import AnalysedTexts
from rag_assets.retrieval.lexical.weighed_word import SMALL, Weigh, WeighedWord
from rag_assets.store.large_tables import Ids

_DESCRIPTION = "word_index"

Repeats = Literal["added", "multiplied", "cosine"]
"""What a token that stands n times in the query counts: its weight added n times or times n, or
its part of the cosine of query and chunk."""

MAX_BYTES = 3 << 26
"""Of the words that are kept, which are those used last."""

TOGETHER = 1 << 20
"""Entries of the words that are weighed together."""

PRUNED_FROM = 1 << 17
"""Chunks of an index from which on it takes less time not to add all sums."""

CELLS = 1 << 17
"""Sums that are formed at once: of one query of a small index, calls take longer than adding."""

Terms = Sequence[tuple[WeighedWord, float]]
"""The words that are added for a query, in this order, each with a factor."""


def smooth_idf(n_chunks: int, holding: Longs) -> Floats:
    """Return the idf of scikit-learn of tokens that so many chunks hold."""
    idf: Floats = np.log((1 + n_chunks) / (1 + holding)) + 1
    return idf


@dataclass(eq=False)
class WordIndex(QuerySearcher[Sequence[str]]):
    """Words with their counts in each chunk that holds them; searched for texts.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        lengths: tokens of each chunk, int64, shape (chunks,).
        segments: the counts, of one part of the chunks after the other.
        analyzer: its name; queries are analysed like the chunks.
        options: says what words weigh, and what a token counts that is repeated in the query.
    """

    chunk_ids: Sequence[str]
    lengths: Longs
    segments: Sequence[Segment]
    analyzer: str
    options: AnalysedRetriever
    _words: dict[str, WeighedWord] = field(default_factory=dict, init=False)
    _places: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)
    _n_bytes: int = field(default=0, init=False)

    @classmethod
    def of(
        cls, segments: Sequence[Segment], analyzer: str, options: AnalysedRetriever
    ) -> WordIndex:
        """Return the index of some segments."""
        names = [part for each in segments for part in each.chunks.column("chunk_id").chunks]
        ids, none = Ids(pa.chunked_array(names, pa.string())), np.empty(0, np.int64)
        lengths = np.concatenate([none, *(numbers_of(s.chunks, "length") for s in segments)])
        return cls(ids, lengths, segments, analyzer, options)

    @cached_property
    def ids_rank(self) -> Positions:
        """Chunks lie in ascending order of their ids."""
        return np.arange(len(self.chunk_ids))

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(segment.chunks.num_rows for segment in self.segments)]

    @cached_property
    def _terms(self) -> list[pa.Array]:
        columns = (segment.terms.column("term") for segment in self.segments)
        return [c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for c in columns]

    @cached_property
    def _weigh(self) -> Weigh:
        # It must not know the index, which so takes its memory along when it goes.
        return self.options.weigher(self)

    def counts(self, word: str) -> Entries:
        """Return the chunks that hold a word, ascending, and how often each of them does."""
        places = self._places.get(word)
        if places is None:
            (places,) = self._found([word]).T.tolist()
        columns = [
            (start, segment.column(number))
            for start, segment, number in zip(self._starts, self.segments, places, strict=False)
            if number >= 0
        ]
        none, shifted = np.empty(0, np.int32), (each.rows + np.int32(n) for n, each in columns)
        numbers = [np.empty(0, np.uint8), *(column.numbers for _, column in columns)]
        return Entries(np.concatenate([none, *shifted]), np.concatenate(numbers))

    def word(self, word: str) -> WeighedWord:
        """Return a word with what it weighs; those used last are kept."""
        weighed = self._words.pop(word, None)
        if weighed is None:
            entries = self.counts(word)
            weights = (
                self._weigh.one(entries, entries.rows.size) if entries.rows.size else np.empty(0)
            )
            bounds = weights.min(initial=np.inf).item(), weights.max(initial=0.0).item()
            return self._keep(word, entries, weights, bounds)
        self._words[word] = weighed
        return weighed

    def _keep(
        self, word: str, entries: Entries, weights: Floats, bounds: Sequence[float]
    ) -> WeighedWord:
        weighed = WeighedWord.of(entries, weights, bounds, self._weigh, len(self.chunk_ids))
        self._n_bytes += weighed.n_bytes
        while self._n_bytes > MAX_BYTES and self._words:
            self._n_bytes -= self._words.pop(next(iter(self._words))).n_bytes
        self._words[word] = weighed
        return weighed

    def look_up(self, words: Iterable[str]) -> None:
        """Find words, and weigh the rarest, all at once: one by one, calls take longest."""
        new = [word for word in dict.fromkeys(words) if word not in self._words]
        if not new:
            return
        places = self._found(new)
        self._places = dict(zip(new, places.T.tolist(), strict=True))
        holding = np.zeros_like(places)
        for segment, own, number in zip(self.segments, places, holding, strict=True):
            number[own >= 0] = segment.holding[own[own >= 0]]
        total = holding.sum(axis=0)
        order = np.argsort(total, kind="stable")
        chosen = order[(total[order] > 0) & (np.cumsum(total[order]) <= TOGETHER)]
        if not chosen.size:
            return
        ends = np.cumsum(total[chosen])
        free, kinds = ends - total[chosen], [s.entries.numbers.dtype for s in self.segments]
        rows, numbers = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.result_type(*kinds))
        for n, segment in enumerate(self.segments):
            sizes = holding[n, chosen]
            source = _spans(segment.starts[places[n, chosen]].astype(np.int64), sizes)
            target = _spans(free, sizes)
            rows[target] = segment.entries.rows[source] + np.int32(self._starts[n])
            numbers[target] = segment.entries.numbers[source]
            free = free + sizes
        weights = self._weigh.each(Entries(rows, numbers), total[chosen])
        starts = ends - total[chosen]
        least, highest = np.minimum.reduceat(weights, starts), np.maximum.reduceat(weights, starts)
        columns = (each.tolist() for each in (chosen, starts, ends, least, highest))
        for word, start, end, *bounds in zip(*columns, strict=True):
            part = slice(start, end)
            self._keep(new[word], Entries(rows[part], numbers[part]), weights[part], bounds)

    def _found(self, words: Sequence[str]) -> Longs:
        """Return where each word stands in each segment, shape (segments, words); -1: nowhere."""
        texts = pa.array(words, pa.string())
        places = [_places(terms, texts) for terms in self._terms]
        return np.array(places, np.int64).reshape(-1, len(words))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """All words; only some formulas need them."""
        return Vocabulary.of(self.segments)

    def terms(self, query_tokens: Sequence[str]) -> Terms:
        """Return the words that are added for a query, in this order, each with a factor."""
        words = {token: self.word(token) for token in query_tokens}
        held = [words[token] for token in query_tokens if words[token].holding]
        if self.options.repeats == "added":
            return [(word, 1.0) for word in held]
        counts = Counter(held)  # in the order in which words occur first
        factors = np.array(list(counts.values()), dtype=np.float64)
        if self.options.repeats == "cosine" and counts:
            holding = np.array([word.holding for word in counts])
            factors *= smooth_idf(len(self.chunk_ids), holding)
            factors /= np.sqrt(np.sum(factors * factors))
        return list(zip(counts, factors.tolist(), strict=True))

    def scores(self, query_tokens: Sequence[str]) -> Floats:
        """Return the score of every chunk, float64, shape (chunks,); 0 where no token occurs."""
        scores: Floats = self._sums([self.terms(query_tokens)])[0]
        return scores

    def _sums(self, queries: Sequence[Terms]) -> Floats:
        """Return the sums of the words of each query; shape (queries, chunks)."""
        shape = len(queries), len(self.chunk_ids)
        if len(self.chunk_ids) < SMALL:
            columns = [word.column() for terms in queries for word, _ in terms]
            factors = np.array([factor for terms in queries for _, factor in terms])
            starts = np.repeat(np.arange(len(queries)) * len(self.chunk_ids), [*map(len, queries)])
            weighted = (factors != 1).any()
            totals = sums(columns, prod(shape), factors if weighted else None, starts)
            return totals.reshape(shape)
        totals = np.zeros(shape)
        for total, terms in zip(totals, queries, strict=True):
            for word, factor in terms:
                word.add_to(total, factor)
        return totals

    def best(self, terms: Terms, depth: int) -> Hits:
        """Return the chunks with the highest sums above 0 of some words, at most ``depth``.

        Each sum is added in the order of ``terms``, whichever chunks are looked at.
        """
        chunks = None
        if len(self.chunk_ids) >= PRUNED_FROM and terms:
            factors = defaultdict[WeighedWord, float](float)
            for word, factor in terms:
                factors[word] += factor
            if all(word.least >= 0 and factor >= 0 for word, factor in factors.items()):
                chunks = contenders([*factors.items()], len(self.chunk_ids), depth)
        if chunks is None:
            return best_above_zero(self._sums([terms])[0], self.ids_rank, depth)
        weights = {word: word.at(chunks) for word in factors}
        totals = np.zeros(chunks.size)
        for word, factor in terms:
            totals += weights[word] if factor == 1 else weights[word] * factor
        hits = best_above_zero(totals, self.ids_rank[chunks], depth)
        return Hits(chunks[hits.positions].astype(np.int64), hits.scores)

    def read(self, queries: Sequence[str]) -> Sequence[Sequence[str]]:
        analysed = analyze_all(self.analyzer, queries)
        self.look_up(chain.from_iterable(analysed))
        return analysed

    def ranked(self, query: Sequence[str], depth: int) -> Hits:
        """Return the chunks that score above 0 for the tokens of one query, at most ``depth``.

        Order: score descending, then id descending by UTF-8 bytes, exact at the cut. A query
        without a token that is in the index has no hits.
        """
        return self.best(self.terms(query), depth)

    def search(
        self, queries: Sequence[str], depth: int, progress: Report | None = None
    ) -> list[Hits]:
        at_once = CELLS // max(1, len(self.chunk_ids))
        if at_once < 2:
            return super().search(queries, depth, progress)
        hits, analysed = list[Hits](), iter(self.read(queries))
        while block := [self.terms(query) for query in islice(analysed, at_once)]:
            hits += best_of_each(self._sums(block), self.ids_rank, depth)
            if progress is not None:
                progress(len(hits))
        return hits


def _spans(starts: Longs, sizes: Longs) -> Longs:
    """Return the numbers of spans that start so and are so long, one span after the other."""
    ends = np.cumsum(sizes)
    numbers: Longs = np.repeat(starts - ends + sizes, sizes) + np.arange(sizes.sum())
    return numbers


def _places(terms: pa.Array, words: pa.Array) -> Longs:
    """Return where each word stands in ascending terms; -1: nowhere."""
    if not len(terms):
        return np.full(len(words), -1)
    rows = pc.min_element_wise(pc.search_sorted(terms, words).cast(pa.int64()), len(terms) - 1)
    places: Longs = pc.if_else(pc.equal(terms.take(rows), words), rows, -1).to_numpy()
    return places


@dataclass(frozen=True)
class Vocabulary:
    """The words of all segments.

    Attributes:
        holding: in how many chunks each stands, int64; words in the order in which they occur
            first.
        of_segments: the same for each column of each segment.
    """

    holding: Longs
    of_segments: Sequence[Longs]

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Vocabulary:
        """Sum what segments hold."""
        words = [part for each in segments for part in each.terms.column("term").chunks]
        every = pa.chunked_array(words, pa.string()).combine_chunks().dictionary_encode()
        numbers = np.from_dlpack(every.indices).astype(np.int64)
        none = np.empty(0, np.int64)
        holding = np.concatenate([none, *(segment.holding for segment in segments)])
        totals = np.zeros(len(every.dictionary), np.int64)
        np.add.at(totals, numbers, holding)
        first = [none, *(numbers_of(segment.terms, "first") for segment in segments)]
        # by segment, and by the place in it: of a word the first counts, and the sort is stable
        starts = accumulate(map(len, first[:-1]))
        order = np.concatenate(
            [np.argsort(part) + start for part, start in zip(first, [0, *starts], strict=True)]
        )
        _, places = np.unique(numbers[order], return_index=True)
        in_order = numbers[order][np.sort(places)]
        ends = np.cumsum([segment.terms.num_rows for segment in segments])[:-1]
        return cls(totals[in_order], np.split(totals[numbers], ends))


class AnalysedRetriever(LexicalRetriever, ABC):
    """Options of a retriever over analysed words.

    ``analyzer`` is ``auto`` or a name.
    """

    analyzer: str = AUTO

    @field_validator("analyzer")
    @classmethod
    def _analyzer_exists(cls, name: str) -> str:
        names = (AUTO, *ANALYZERS)
        if name not in names:
            raise ValueError(f"unknown analyzer {allowed_names(name, names)}")
        try:
            check_analyzer(name)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return name

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), **analyzer_versions(self.analyzer)}

    def code_roots(self) -> list[Root]:
        return [*super().code_roots(), *analyzer_code(self.analyzer)]

    @property
    @abstractmethod
    def repeats(self) -> Repeats:
        """What a token counts that is repeated in the query."""

    @abstractmethod
    def weigher(self, index: WordIndex) -> Weigh:
        """Return what weighs words in the chunks of an index."""

    def tables(self) -> Sequence[str]:
        """Return which tables of analysed texts a search reads."""
        return COUNTED

    def build_of(self, analysed: AnalysedTexts, folder: Path) -> Mapping[str, Any]:
        """Index analysed texts into an empty folder; no text is analysed again."""
        analysed.save_tables(folder, self.tables())
        options = {n: value for n, value in self.index_options().items() if n != "analyzer"}
        about = {"analyzer": analysed.analyzer, "segments": len(analysed.segments)}
        files = ArrayFolder(folder)
        files.save(**{_DESCRIPTION: {**about, "options": options}})
        return {**analysed.facts, "bytes": files.size}

    def build(self, chunks: pa.Table, texts: Sequence[str], folder: Path) -> Mapping[str, Any]:
        ids = chunks.column("chunk_id").to_pylist()
        return self.build_of(AnalysedTexts.of(ids, texts, self.analyzer), folder)

    def open(self, folder: Path) -> Searcher[Sequence[str]]:
        return self.opened(folder)

    def opened(self, folder: Path) -> WordIndex:
        """Return the index that ``build_of`` wrote."""
        files = ArrayFolder(folder)
        about = files.mapping(_DESCRIPTION, ["analyzer", "segments"])
        numbers = range(about["segments"])
        segments = [Segment.load(files, table_end(number)) for number in numbers]
        return WordIndex.of(segments, about["analyzer"], self)
