"""Where the tokens of a text begin, without tokenizing a frequent word more than once."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rag_assets.chunking.edges import BLANK

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WORD = re.compile(rf"[^{BLANK}]+")

LONGEST_REMEMBERED = 32
"""Longer words, such as a paragraph of a script without blanks, hardly ever occur again."""

MOST_REMEMBERED = 500_000

LINE_CHARACTERS = 4_000
"""Of words that are tokenized together."""


class TokenStarts:
    """The beginnings of tokens, each word tokenized once, behind a blank.

    ``adds_up`` says whether a slice of a text that is cut between words has exactly the tokens of
    its words: true of BERT's tokenizers, which look at each word alone. For others, which
    count the blank before a word or merge blanks, the sum is near.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Count by ``tokenizer``, which neither truncates nor pads."""
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}
        self.adds_up = _looks_at_each_word_alone(tokenizer)

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        """Return for each text the character at which each of its tokens begins, in order.

        The tokens of one character, such as the bytes of an emoji, all begin where it begins.
        """
        words = [_WORD.findall(text) for text in texts]
        starts = self._tokenized({word for of_text in words for word in of_text})
        return [
            [
                match.start() + start
                for match, word in zip(_WORD.finditer(text), of_text, strict=True)
                for start in starts[word]
            ]
            for text, of_text in zip(texts, words, strict=True)
        ]

    def counts(self, slices: Sequence[str]) -> list[int]:
        """Return how many tokens each slice really has, special ones not counted."""
        found = self._tokenizer.encode_batch_fast(list(slices), add_special_tokens=False)
        return [len(encoding) for encoding in found]

    def _tokenized(self, words: set[str]) -> dict[str, tuple[int, ...]]:
        lines = list(_lines(sorted(words - self._known.keys())))
        texts = [" ".join(line) for line in lines]
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        found: dict[str, tuple[int, ...]] = {}
        for line, encoding in zip(lines, encodings, strict=True):
            found |= _by_word(line, [start for start, _ in encoding.offsets])
        if len(self._known) + len(found) > MOST_REMEMBERED:
            self._known = {word: self._known[word] for word in words if word in self._known}
        starts = {word: self._known[word] for word in words if word in self._known} | found
        self._known.update((w, s) for w, s in found.items() if len(w) <= LONGEST_REMEMBERED)
        return starts


def _lines(words: Sequence[str]) -> Iterator[list[str]]:
    """Put words together: one call of the tokenizer takes as long as many words in one text."""
    line: list[str] = []
    length = 0
    for word in words:
        if line and length + len(word) > LINE_CHARACTERS:
            yield line
            line, length = [], 0
        line.append(word)
        length += len(word) + 1
    if line:
        yield line


def _by_word(line: Sequence[str], starts: Iterable[int]) -> dict[str, tuple[int, ...]]:
    """Part the tokens of words with a blank between them; a blank belongs to the word after it."""
    begins = list(accumulate((len(word) + 1 for word in line[:-1]), initial=0))
    found: list[list[int]] = [[] for _ in line]
    for start in accumulate(starts, max):
        number = bisect_right(begins, start + 1) - 1
        found[number].append(max(start - begins[number], 0))
    return dict(zip(line, map(tuple, found), strict=True))


def _looks_at_each_word_alone(tokenizer: Tokenizer) -> bool:
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
    kinds = tuple(type(part).__name__ for part in parts)
    return kinds == ("BertNormalizer", "BertPreTokenizer", "WordPiece") and not any(
        token.lstrip or token.rstrip or token.single_word or not _WORD.fullmatch(token.content)
        for token in tokenizer.get_added_tokens_decoder().values()
    )
