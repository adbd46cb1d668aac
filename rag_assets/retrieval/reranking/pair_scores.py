"""Scores of pairs by a local model that reads a query with one document, through the cache.

Each different pair is scored once. New scores are kept after every portion, so that a killed run
loses one portion at most. Pairs are sorted by their length, so that few tokens are added to fill up
a batch of them; what was scored and what was known is measured.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import DataError
from rag_assets.models.batches import Lengths, in_batches
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.token_counts import token_counts
from rag_assets.retrieval.reranking.candidates import Candidates, Pair, Scores
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.store.canonical import fingerprint
from rag_assets.store.content_cache import KEY, ContentCache

PORTION = 512
"""Pairs that are scored between two writes to the cache, and between two reports of progress."""


Scorer = Callable[[Sequence[Pair]], Scores]


class PairScorer(Protocol):
    """A model that reads a query with one document."""

    def describe(self) -> Mapping[str, Any]:
        """Return all that determines a score besides the two texts."""

    def score(self, pairs: Sequence[Pair]) -> Scores:
        """Return one score a pair, float64."""

    def lengths(self, pairs: Sequence[Pair], counted: Path | None) -> Lengths:
        """Return by what pairs are sorted, with the folder of the numbers that are known."""


def letter_counts(pairs: Sequence[Pair]) -> Lengths:
    """Return how many letters both texts of each pair have; shape (len(pairs),)."""
    return np.array([len(pair.query) + len(pair.document) for pair in pairs], dtype=np.int_)


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
    """Score the pairs of a query past the cache; return that it was done."""
    scorer.score([Pair(one.query, text) for text in dict.fromkeys(one.texts)])
    return True


def rerank_by_pairs(
    candidates: Sequence[Candidates],
    scorer: Scorer,
    described: Mapping[str, Any],
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    compute: Compute = LOCAL,
    lengths: Callable[[Sequence[Pair]], Lengths] = letter_counts,
) -> list[Scores]:
    """Return the score of every candidate of every query.

    Args:
        candidates: of each query.
        scorer: gives one score a pair, float64; called with new pairs only.
        described: all that determines a score besides the two texts.
        cache: folder of the pair score cache; None remembers nothing.
        progress: called with (new pairs scored, new pairs); not at all when none is new.
        compute: where new pairs are scored.
        lengths: by what new pairs are sorted: those of even length stand together, so that least of
            a batch is wasted.

    Raises:
        DataError: a score is NaN or infinite.
        StoreError: the cache cannot be written.
    """
    asked = [Pair(one.query, text) for one in candidates for text in one.texts]
    rows: dict[Pair, int] = {}
    row_of_pair = [rows.setdefault(pair, len(rows)) for pair in asked]
    unique = list(rows)
    opened = PairScoreCache(cache, fingerprint(described)) if cache is not None else None
    scores = _known(opened, unique)
    missing = np.flatnonzero(np.isnan(scores))
    long = lengths([unique[row] for row in missing.tolist()])
    order = missing[np.argsort(-long, kind="stable")].tolist()
    portions = [*in_batches(order, PORTION)]
    blocks = (([unique[row] for row in portion],) for portion in portions)
    n_done = 0
    for number, new in compute.map(scorer, blocks):
        pairs = [unique[row] for row in portions[number]]
        scores[portions[number]] = cache_scores(opened, pairs, _checked(new, pairs))
        n_done += len(pairs)
        if progress is not None:
            progress(n_done, len(order))
    flat = scores[row_of_pair] if asked else scores
    ends = np.cumsum([0, *(len(one.texts) for one in candidates)])
    return [flat[start:end] for start, end in pairwise(ends.tolist())]


class PairScoreCache:
    """The scores of one scorer: of everything that determines a score but the two texts.

    The key is the SHA-256 of the scorer, the query's text and the document's text.
    """

    def __init__(self, folder: Path, scorer: str) -> None:
        """Use ``folder``, which scorers may share, for a scorer by its fingerprint."""
        self._scorer = _digest(scorer)
        self._cache = ContentCache(folder, pa.schema([pa.field("score", pa.float64(), False)]))

    def get(self, pairs: Sequence[Pair]) -> Scores:
        """Return the scores, shape (len(pairs),); NaN where none is known."""
        scores = np.full(len(pairs), np.nan)
        for hits in self._cache.find(self._keys(pairs)):
            scores[hits.asked] = hits.chosen().column("score").to_numpy()
        return scores

    def put(self, pairs: Sequence[Pair], scores: Scores) -> None:
        """Add the scores of unknown pairs, float64, shape (len(pairs),).

        Raises:
            DataError: a score is NaN or infinite.
            StoreError: the folder cannot be written.
        """
        if not np.isfinite(scores).all():
            raise DataError("a score of a pair is NaN or infinite and is not cached")
        self._cache.put(self._keys(pairs), [pa.array(scores)])

    def _keys(self, pairs: Sequence[Pair]) -> pa.Array:
        """Return the keys; parts are hashed before they are joined, so no two pairs read alike."""
        digests = {text: _digest(text) for text in {text for pair in pairs for text in pair}}
        joined = (self._scorer + digests[one.query] + digests[one.document] for one in pairs)
        return pa.array([hashlib.sha256(parts).digest() for parts in joined], KEY)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def cache_scores(cache: PairScoreCache | None, pairs: Sequence[Pair], scores: Scores) -> Scores:
    """Cache new scores; where another process was first, its score is the one that stays."""
    if cache is None:
        return scores
    cache.put(pairs, scores)
    stored = cache.get(pairs)
    return np.where(np.isnan(stored), scores, stored)


def _known(cache: PairScoreCache | None, pairs: Sequence[Pair]) -> Scores:
    return np.full(len(pairs), np.nan) if cache is None else cache.get(pairs)


def _checked(scores: Scores, pairs: Sequence[Pair]) -> Scores:
    wrong = np.flatnonzero(~np.isfinite(scores))
    if wrong.size:
        pair = pairs[int(wrong[0])]
        raise DataError(
            f"the model scores query {pair.query[:80]!r} with document {pair.document[:80]!r} as "
            f"{scores[int(wrong[0])]}; a score must be a finite number"
        )
    return scores


def pair_lengths(
    pairs: Sequence[Pair],
    files: ModelFiles,
    batch_size: int,
    limit: int | None,
    counted: Path | None = None,
) -> Lengths:
    """Return how many tokens of each pair a model reads, where they can be counted.

    Those that stand around and between the texts are the same in all pairs, and are not exact.
    Letters of what is one batch anyway.

    Args:
        pairs: of a query and a document.
        files: the model's files.
        batch_size: pairs that the model reads at once.
        limit: after how many tokens a pair is cut; None: never.
        counted: folder of the numbers of tokens that are known; None remembers none.

    Returns:
        Shape (len(pairs),).

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
        StoreError: the cache cannot be written.
    """
    if len(pairs) <= batch_size:
        return letter_counts(pairs)
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    counts = token_counts(texts, files, cache=counted)
    if counts is None:
        return letter_counts(pairs)
    count_of = dict(zip(texts, counts.tolist(), strict=True))
    both = np.array([count_of[pair.query] + count_of[pair.document] for pair in pairs])
    return both if limit is None else np.minimum(both, limit)
