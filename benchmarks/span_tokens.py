"""Texts as the span reader sees them: tokens, sentences and words of a question, as numbers."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MOST_TOKENS = 2048
"""Tokens of a passage that are read: of a longer one, the sentences nearest to the question."""

N_COUNTERS = 1 << 16
"""In how many passages a stem stands is counted under its hash modulo this."""

_LONGEST_SENTENCE, _LONGEST_WORD, _LONGEST_QUESTION = 256, 64, 200

_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without blanks: a character is a token
    r"|\d+(?:[.,:]\d+)*+|[^\W\d_]+"
    r"|(\S)\1*+"  # a rule of dashes is one
)
_SENTENCE_END = re.compile(
    r"(?<![.!?\u3002\uff01\uff1f])[.!?\u3002\uff01\uff1f]++[\"')\]]*+(?:\s++(?=[^a-z])|$)|\n"
)
_ENDING = re.compile(r"(?:ings?|edly|ed|ies|es|s|ly|ions?|ers?|e|y)$")
_QUESTION_WORDS = frozenset(
    ["who", "whom", "whose", "when", "where", "why", "which", "what", "how"]
)
_SKIPPED = frozenset(
    word
    for words in ("is are was were be been did does do has have had", "the a an of in to for")
    for word in words.split()
)


class PassageTokens(NamedTuple):
    """The tokens of a passage, one a row of each array."""

    starts: Array
    """Its first character; ``ends`` is the one behind it."""
    ends: Array
    word: Array
    """Hashes of the word in lower case, and of what follows."""
    stem: Array
    shape: Array
    """Upper or lower case, how many digits, which mark."""
    ending: Array
    """Shape and last three letters: roughly a part of speech."""
    is_mark: Array
    sentence: Array
    """Its number, from 0 without a gap."""


class QuestionWords(NamedTuple):
    """What of a question is looked at."""

    stems: Array
    """Of its different content words; one that stands nowhere if it has none."""
    from_end: Array
    """How many content words come after each."""
    kind: int
    """Hash of who, when, how many, ..."""
    subject: int
    """Hash of the word after that, as year in "what year": often what kind of thing it asks for."""


class _Word(NamedTuple):
    """Hashes of a token."""

    word: int
    stem: int
    shape: int
    ending: int
    is_mark: bool


def passage_tokens(text: str) -> PassageTokens:
    """Read a passage. Sentences also end at a line's end, and after 256 tokens."""
    tokens = list(_TOKEN.finditer(text))
    words = [_word(token.group()[:_LONGEST_WORD]) for token in tokens]
    starts = np.array([token.start() for token in tokens], np.int64)
    ends = np.array([token.end() for token in tokens], np.int64)
    hashed = np.array([word[:4] for word in words], np.uint64).reshape(-1, 4)
    word, stem, shape, ending = hashed.T
    marks = np.array([word.is_mark for word in words], bool)
    breaks = np.array([match.end() for match in _SENTENCE_END.finditer(text)], np.int64)
    sentence = np.searchsorted(breaks, starts, side="right")
    within = np.arange(len(tokens)) - np.searchsorted(sentence, sentence)
    pieces = sentence * (len(tokens) + 1) + within // _LONGEST_SENTENCE
    return PassageTokens(starts, ends, word, stem, shape, ending, marks, _numbered(pieces))


def question_words(text: str) -> QuestionWords:
    """Read a question, or a few words that are searched for."""
    tokens = [
        token.group().lower()[:_LONGEST_WORD]
        for token in islice(_TOKEN.finditer(text), _LONGEST_QUESTION)
    ]
    at = next((n for n, token in enumerate(tokens) if token in _QUESTION_WORDS), len(tokens))
    after = [token for token in tokens[at + 1 :] if token[0].isalnum() and token not in _SKIPPED]
    # "how many" and "how long" ask for different things, "how" alone for nothing in particular.
    n_words = 2 if tokens[at : at + 1] == ["how"] else 1
    content = [
        token
        for token in tokens
        if token[0].isalnum() and token not in _QUESTION_WORDS and token not in _SKIPPED
    ]
    from_end = {_word(token).stem: len(content) - 1 - n for n, token in enumerate(content)}
    from_end = from_end or {0: 0}
    return QuestionWords(
        np.array(list(from_end), np.uint64),
        np.array(list(from_end.values()), np.int64),
        _hash(" ".join(tokens[at : at + n_words])),
        _hash(after[0] if after else ""),
    )


def inverse_frequencies(passages: Iterable[PassageTokens]) -> npt.NDArray[np.float32]:
    """Return log((N + 1) / (n + 0.5)) for each counter: n of N passages have its stems."""
    counts, n_passages = np.zeros(N_COUNTERS), 0
    for passage in passages:
        counts[np.unique(_counters(passage.stem))] += 1
        n_passages += 1
    return np.log((n_passages + 1) / (counts + 0.5)).astype(np.float32)


def rarity(stems: Array, idf: Array) -> Array:
    """Return the inverse frequency of each stem, at least 0."""
    return np.maximum(idf[_counters(stems)], 0).astype(np.float64)


def shared_words(question: QuestionWords, passage: PassageTokens) -> Array:
    """Return which token is which stem of the question: (stems, tokens)."""
    shared: Array = (passage.stem == question.stems[:, None]) & ~passage.is_mark
    return shared


def sentence_weights(shared: Array, weights: Array, sentence: Array) -> Array:
    """Return the sum of the weights of the stems that each sentence has."""
    has = np.zeros((len(weights), sentence[-1] + 1), bool)
    stem, token = np.nonzero(shared)
    has[stem, sentence[token]] = True
    sums: Array = weights @ has
    return sums


def nearest_sentences(passage: PassageTokens, question: QuestionWords, idf: Array) -> PassageTokens:
    """Return the passage; of one above :data:`MOST_TOKENS`, its sentences with rare shared words.

    They stay in their order. So the time for a question has a bound, however long the passage.
    """
    if len(passage.starts) <= MOST_TOKENS:
        return passage
    weights = rarity(question.stems, idf)
    sums = sentence_weights(shared_words(question, passage), weights, passage.sentence)
    order = np.argsort(-sums, kind="stable")
    taken = order[np.cumsum(np.bincount(passage.sentence)[order]) <= MOST_TOKENS]
    nearest = PassageTokens(*(column[np.isin(passage.sentence, taken)] for column in passage))
    return nearest._replace(sentence=_numbered(nearest.sentence))


def hashes(words: str) -> Array:
    """Return the hashes of words with blanks between, as in :attr:`PassageTokens.word`."""
    return np.array([_hash(word) for word in words.split()], np.uint64)


def _numbered(values: Array) -> Array:
    return np.unique(values, return_inverse=True)[1]


def _counters(stems: Array) -> Array:
    return (stems % np.uint64(N_COUNTERS)).astype(np.int64)


@lru_cache(maxsize=1 << 16)
def _word(token: str) -> _Word:
    lower, first = token.lower(), token[0]
    stem = _ENDING.sub("", lower)
    if first.isdigit():
        shape = f"{len(token)} digits" if token.isdigit() else "number"
    elif not first.isalpha():
        shape = token
    elif token.isupper():
        shape = "A" if len(token) == 1 else "AA"
    else:
        shape = "Aa" if first.isupper() else "a"
    return _Word(
        word=_hash(lower),
        stem=_hash(stem if len(stem) >= 3 else lower),
        shape=_hash(shape),
        ending=_hash(f"{shape} {lower[-3:]}" if shape in ("a", "Aa") else shape),
        is_mark=not first.isalnum(),
    )


def _hash(text: str) -> int:
    """Return 64 bits, never 0; Python's own hash differs between processes."""
    data = text.encode("utf-8", "surrogatepass")
    return zlib.crc32(data) | zlib.adler32(data) << 32
