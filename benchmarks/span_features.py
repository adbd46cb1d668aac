"""Candidate spans of a passage, and the hashed features that the span reader scores them by.

A feature is a hash of its values, of what they describe, and of the question's kind or subject: a
place among the weights (Weinberger, Dasgupta, Langford, Smola and Attenberg, Feature Hashing for
Large Scale Multitask Learning, ICML 2009). What describes a token as the first, the last or one
inside a span is hashed once a token and not once a span: a span's score is a sum, and the sum over
its inner tokens is a difference of two cumulative sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from span_tokens import (
    Array,
    PassageTokens,
    QuestionWords,
    hashes,
    rarity,
    sentence_weights,
    shared_words,
)

LONGEST = 10
"""Tokens of an answer, at most; an annotated answer that is longer is not learned from."""

N_WEIGHTS = 1 << 18

_FREQUENT = 2.0
"""Inverse frequency below which a word says by itself what it does, as "of" or "was"."""

_NOWHERE = 1 << 20
_NEXT_SENTENCE = 8
"""A word in the next sentence is as far off as so many tokens more."""

_OPENING, _CLOSING = hashes("$ € £ # - “ \" ' ( ["), hashes("% ° \" ' ” ) ]")
_NEVER_FIRST = hashes("of and or is was are were be been s by that which who as with for")
_NEVER_LAST = hashes(
    "of the a an and or in on at to for is was are were by with from that which who as"
    " their his its be been had has have this these but not"
)

_ODD, _OTHER_ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_BASE = 0x5851F42D4C957F2D
_ALWAYS = 1
"""What a feature is joined with that is for all questions."""


class Candidates(NamedTuple):
    """The first and the last token of each."""

    first: Array
    last: Array


class SpanFeatures(NamedTuple):
    """Candidates, and places among the weights."""

    candidates: Candidates
    first: Array
    """Of each token as a span's first, as its last, as one of it: (features, tokens)."""
    last: Array
    inside: Array
    span: Array
    """Of each candidate: (features, candidates)."""


def candidates_of(passage: PassageTokens) -> Candidates:
    """Return the spans inside a sentence that neither begin nor end as answers never do."""
    n_tokens = len(passage.starts)
    first = np.repeat(np.arange(n_tokens), LONGEST)
    last = first + np.tile(np.arange(LONGEST), n_tokens)
    first, last = first[last < n_tokens], last[last < n_tokens]
    word, is_mark = passage.word, passage.is_mark
    may_begin = ~(is_mark & ~np.isin(word, _OPENING)) & ~np.isin(word, _NEVER_FIRST)
    may_end = ~(is_mark & ~np.isin(word, _CLOSING)) & ~np.isin(word, _NEVER_LAST)
    one_sentence = passage.sentence[first] == passage.sentence[last]
    allowed = may_begin[first] & may_end[last] & one_sentence
    return Candidates(first[allowed], last[allowed])


def span_features(question: QuestionWords, passage: PassageTokens, idf: Array) -> SpanFeatures:
    """Return the candidates of a passage (at least one token) and their features."""
    candidates = candidates_of(passage)
    shared = _SharedWords(question, passage, idf)
    inverse = rarity(passage.stem, idf)
    # A frequent word or a mark as it is, others by their form.
    as_it_is = (inverse < _FREQUENT) | passage.is_mark
    kind = np.where(as_it_is, passage.word, passage.ending)
    given = [_ALWAYS, question.kind, question.subject]
    inside = [
        *((passage.word,), (kind,), (passage.shape,)),
        (shared.anywhere, _steps(inverse)),
    ]
    return SpanFeatures(
        candidates,
        _places(1, _edge(passage, kind, shared, -1), given),
        _places(2, _edge(passage, kind, shared, 1), given),
        _places(3, inside, given),
        _span_places(question, passage, candidates, kind, shared),
    )


class _SharedWords:
    """Where the question's words stand in the passage, seen from each token."""

    def __init__(self, question: QuestionWords, passage: PassageTokens, idf: Array) -> None:
        shared = shared_words(question, passage)
        weights = rarity(question.stems, idf)
        weights /= max(weights.sum(), 1e-9)
        self.anywhere: Array = np.asarray(shared.any(axis=0))
        stem = np.where(self.anywhere, np.minimum(question.from_end[shared.argmax(axis=0)], 4), -1)
        self.stem = stem + 1
        """0, or which of the question's words it is, from the question's end."""
        place = np.arange(stem.size) + _NEXT_SENTENCE * passage.sentence
        before = np.maximum.accumulate(np.where(shared, place, -_NOWHERE), axis=1)
        after = np.minimum.accumulate(np.where(shared, place, _NOWHERE)[:, ::-1], axis=1)[:, ::-1]
        left, right = np.full(shared.shape, _NOWHERE), np.full(shared.shape, _NOWHERE)
        left[:, 1:] = place[1:] - before[:, :-1]
        right[:, :-1] = after[:, 1:] - place[:-1]
        self.distance = {-1: left.min(axis=0), 1: right.min(axis=0)}
        """To the nearest of them on the left (-1) and on the right (1)."""
        self.near = {
            side: weights[:, None] / (1 + far / 6) for side, far in ((-1, left), (1, right))
        }
        """Weight of each word on that side, less the farther off: (stems, tokens)."""
        self.sentences = sentence_weights(shared, weights, passage.sentence)
        """Share of the question's weight that each sentence has."""
        self.passage = float(weights @ shared.any(axis=1))


def _edge(
    passage: PassageTokens, kind: Array, shared: _SharedWords, side: int
) -> list[tuple[Array, ...]]:
    """Return features of a token at a span's start (``side`` -1, where the left counts) or end."""
    word, shape = passage.word, passage.shape
    out, beyond = _beside(kind, side), _beside(kind, 2 * side)
    stem_out, stem_beyond = _beside(shared.stem, side), _beside(shared.stem, 2 * side)
    return [
        *((word,), (_beside(word, side),), (kind,), (out,), (beyond, out)),
        *((out, kind), (_beside(kind, -side), kind), (shape,), (_beside(shape, side), shape)),
        (_steps(shared.distance[side]),),
        (_beside(shared.anywhere, side), _beside(shared.anywhere, 2 * side)),
        *((stem_out,), (stem_out, out), (stem_beyond, out)),
    ]


def _span_places(
    question: QuestionWords,
    passage: PassageTokens,
    candidates: Candidates,
    kind: Array,
    shared: _SharedWords,
) -> Array:
    first, last = candidates
    length = last - first + 1
    short = np.minimum(length, 4)
    shapes = _hashes_of_spans(passage.shape, first, last)
    # How near the question's words stand, each on its nearer side.
    near = np.maximum(shared.near[-1][:, first], shared.near[1][:, last]).sum(axis=0)
    less_near = _sixteenths(near.max(initial=0) - near + 1 / 32)
    distance = np.minimum(shared.distance[-1][first], shared.distance[1][last])
    n_shared = np.append(0, np.cumsum(shared.anywhere))
    weight = shared.sentences[passage.sentence[first]]
    rank = np.searchsorted(np.sort(-shared.sentences), -weight)
    rank = np.minimum(rank, 4)
    features = [
        *((length,), (shapes,), (kind[first], kind[last], short)),
        *((_sixteenths(near),), (less_near,), (rank,), (rank, less_near)),
        (_sixteenths(weight) // 2, np.full(rank.size, int(shared.passage * 8))),
        (_sixteenths(shared.sentences.max() - weight + 1 / 16) // 2,),
        (n_shared[last + 1] - n_shared[first], short),
        (_steps(distance),),
    ]
    around = (_beside(kind, -1)[first], _beside(kind, 1)[last])
    return np.concatenate(
        [
            _places(4, features, [_ALWAYS, question.kind]),
            _places(5, [(length,), (shapes,)], [question.subject]),
            _places(6, [around], [_ALWAYS]),
        ]
    )


def _places(role: int, features: Sequence[tuple[Array, ...]], given: Sequence[int]) -> Array:
    """Hash each feature with each of ``given``: (features x given, values)."""
    salt = np.arange(1, len(features) + 1, dtype=np.uint64) + np.uint64(role << 8)
    values = np.stack([_joined(*feature) for feature in features]) + (salt * _OTHER_ODD)[:, None]
    values *= _ODD
    values ^= values >> np.uint64(32)
    places = values[:, None, :] ^ np.array(given, np.uint64)[None, :, None]
    places *= _ODD
    places >>= np.uint64(65 - N_WEIGHTS.bit_length())
    rows: Array = places.reshape(-1, values.shape[1]).astype(np.int32)
    return rows


def _joined(*columns: Array) -> Array:
    """Return one number for the values of several columns."""
    joined = columns[0].astype(np.uint64)
    for column in columns[1:]:
        joined = joined * _OTHER_ODD + column.astype(np.uint64)
        joined ^= joined >> np.uint64(31)
    return joined


def _beside(column: Array, by: int) -> Array:
    """Return the values ``by`` tokens on (at most 2); beyond the ends there is one of its own."""
    padded = np.pad(column.astype(np.uint64), 2, constant_values=7)
    return padded[2 + by : 2 + by + column.size]


def _steps(distance: Array) -> Array:
    """Return 0, 1, 2, 3, 4, and from there on about the logarithm."""
    far = 4 + np.log2(np.clip(distance, 4, 40) / 4) * 1.5
    return np.where(distance <= 4, distance, far).astype(np.int64)


def _sixteenths(share: Array) -> Array:
    return (share * 16).astype(np.int64)


def _hashes_of_spans(values: Array, first: Array, last: Array) -> Array:
    """Hash the values of each span, in their order: a polynomial by differences of its sums."""
    powers, inverses = _powers(len(values))
    sums = np.append(np.uint64(0), np.cumsum(values * powers))
    hashed: Array = (sums[last + 1] - sums[first]) * inverses[first]
    return hashed


@lru_cache(maxsize=64)
def _powers(n: int) -> tuple[Array, Array]:
    """Return the first powers of an odd number and of its inverse, modulo 2^64."""
    base = np.full(n, _BASE, np.uint64)
    inverse = np.full(n, pow(_BASE, -1, 1 << 64), np.uint64)
    base[:1] = inverse[:1] = 1
    return np.cumprod(base), np.cumprod(inverse)
