"""The sentence of some passages that shares most with a question; it needs no model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

MAX_SENTENCE_TOKENS, MAX_WORD_CHARACTERS, MAX_QUESTION_TOKENS = 256, 64, 200
"""In tokens, characters, and tokens."""

_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without blanks: a character is a token
    r"|\d+(?:[.,:]\d+)*+|[^\W\d_]+"
    r"|(\S)\1*+"  # a rule of dashes is one
)
_SENTENCE_END = re.compile(
    r"(?<![.!?\u3002\uff01\uff1f])[.!?\u3002\uff01\uff1f]++[\"')\]]*+(?:\s++(?=[^a-z])|$)|\n"
)
_ENDING = re.compile(r"(?:ings?|edly|ed|ies|es|s|ly|ions?|ers?|e|y)$")
_QUESTION_WORDS = ("who", "whom", "whose", "when", "where", "why", "which", "what", "how")
_VERBS = ("is", "are", "was", "were", "be", "been", "did", "does", "do", "has", "have", "had")
_SMALL_WORDS = ("the", "a", "an", "of", "in", "to", "for")
_SKIPPED = frozenset((*_QUESTION_WORDS, *_VERBS, *_SMALL_WORDS))


class SpanAnswer(NamedTuple):
    """``text`` is ``passages[passage][start:end]``: empty, and ``passage`` -1, if none has a word.

    ``score`` compares answers to one question; it is no probability.
    """

    text: str
    passage: int
    start: int
    end: int
    score: float


NO_ANSWER = SpanAnswer("", -1, 0, 0, 0.0)


def best_sentence(question: str, passages: Sequence[str]) -> SpanAnswer:
    """Return the sentence that shares most with the question.

    The score is the sum of log((N + 1) / (n + 0.5)) over the question's words (their stems) that
    the sentence has, where n of all N sentences have them. Of equal sentences the first is taken.
    """
    stems = _question_stems(question)
    sentences = [
        (number, start, end, stems & words)
        for number, text in enumerate(passages)
        for start, end, words in _sentences(text)
    ]
    counts = Counter(stem for *_, shared in sentences for stem in shared)
    inverse = {stem: math.log((len(sentences) + 1) / (n + 0.5)) for stem, n in counts.items()}
    answers = (
        SpanAnswer(
            passages[number][start:end],
            number,
            start,
            end,
            math.fsum(inverse[stem] for stem in shared),
        )
        for number, start, end, shared in sentences
    )
    return max(answers, key=lambda answer: answer.score, default=NO_ANSWER)


def _question_stems(text: str) -> set[str]:
    tokens = [match.group().lower()[:MAX_WORD_CHARACTERS] for match in _TOKEN.finditer(text)]
    return {
        _stem(token)
        for token in tokens[:MAX_QUESTION_TOKENS]
        if token[0].isalnum() and token not in _SKIPPED
    }


def _sentences(text: str) -> Iterator[tuple[int, int, set[str]]]:
    """Yield where each sentence starts and ends, and the stems of its words.

    A sentence also ends at a line's end, and after 256 tokens.
    """
    breaks = [match.end() for match in _SENTENCE_END.finditer(text)]
    number = 0
    numbered: list[tuple[int, re.Match[str]]] = []
    for token in _TOKEN.finditer(text):
        while number < len(breaks) and breaks[number] <= token.start():
            number += 1
        numbered.append((number, token))
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        tokens = [token for _, token in group]
        for first in range(0, len(tokens), MAX_SENTENCE_TOKENS):
            part = tokens[first : first + MAX_SENTENCE_TOKENS]
            yield part[0].start(), part[-1].end(), {_stem(one.group()) for one in part}


def _stem(token: str) -> str:
    lower = token[:MAX_WORD_CHARACTERS].lower()
    stem = _ENDING.sub("", lower)
    return stem if len(stem) >= 3 else lower
