"""Strategy ``recursive``: cut at the largest unit of text that fits.

Paragraphs, else lines, sentences, words are merged up to the capacity. Characters are counted by
the library semantic-text-splitter. Tokens are counted here, by the same rule, once: from the
beginning of a chunk on, the edges of paragraphs, else of lines, sentences, words, tokens are looked
at; the first kind of which one lies within the capacity is taken, and of this kind the last edge
that does. An edge is where the next unit begins, so blanks belong to the unit before them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rag_assets.chunking.chunker import Cutter, EmbedBy, Piece, SizedChunking, Span, splitter_cutter
from rag_assets.models.model_names import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_JOINERS = "\u200d\ufe0e\ufe0f"
Count = Callable[[int, int], int]

MAX_CACHED_LENGTH = 32
"""Longer words, such as a paragraph of a script without blanks, hardly ever occur again."""

MAX_CACHED_WORDS = 500_000

LINE_CHARACTERS = 4_000
"""Of words that are tokenized together."""

BLANK = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space that parts words for every tokenizer, as the inside of a regular expression's class.

The other characters that ``str.isspace`` takes for white space (U+000B, U+000C, U+001C to U+001F,
U+0085) are control characters, which some tokenizers drop, so that the words on both sides join.
"""

_LINE_END = r"(?:\n|\r(?!\n)|[\u2028\u2029])"
_LINE = re.compile(rf"{_LINE_END}[{BLANK}]*")
_PARAGRAPH = re.compile(rf"{_LINE_END}[{BLANK}]*{_LINE_END}[{BLANK}]*")
_BLANKS = re.compile(rf"[{BLANK}]+")

# Marks that end a sentence before a blank, and those of scripts that put no blank between
# sentences (Unicode Standard Annex 29: STerm and ATerm), each with the closing marks behind it.
_END = r".!?\u2026\u203c\u2047-\u2049\u061f\u06d4\u0964\u0965"
_END_ALONE = r"\u3002\uff01\uff1f\uff61"
_CLOSE = r"\"'\)\]\}\u00bb\u2019\u201d\u300b\u300d\u300f\u3011\uff09"

_SENTENCE = re.compile(
    rf"(?<![{_END}])[{_END}]++[{_CLOSE}]*+[{BLANK}]++"
    rf"|(?<![{_END_ALONE}])[{_END_ALONE}]++[{_CLOSE}]*+[{BLANK}]*+"
)

PARAGRAPH, LINE, SENTENCE, WORD = range(4)
"""Places of the kinds in :func:`edges`, from the largest to the smallest."""

_WORD = re.compile(rf"[^{BLANK}]+")


class Marks(NamedTuple):
    """A text, where its tokens begin, and its edges: of every kind, the largest first."""

    text: str
    starts: list[int]
    kinds: tuple[list[int], ...]


class RecursiveChunking(SizedChunking):
    """Cut at the largest text unit that fits: paragraphs, then sentences, then words."""

    libraries: ClassVar[tuple[str, ...]] = ("semantic-text-splitter",)

    strategy: Literal["recursive"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts at the largest unit.

        Chunks of characters have no white space at their ends; chunks of tokens keep it, so that
        together they hold the whole text.
        """
        if self.max_tokens is None:
            from semantic_text_splitter import TextSplitter

            return splitter_cutter(TextSplitter(self.capacity, self.overlap))
        starts = TokenStarts(load_tokenizer(self.tokenizer))
        return token_cutter(starts, self.max_tokens, self.overlap)


def token_cutter(starts: TokenStarts, capacity: int, overlap: int) -> Cutter:
    """Return what cuts texts into chunks of at most ``capacity`` tokens.

    Together the chunks of a text hold all of it, blanks too, unless a chunk would be blank; only
    those before the first and behind the last visible character are left out, so that more of them
    at the end of a document change no chunk.

    Args:
        starts: the tokenizer.
        capacity: most tokens in a chunk, as the tokenizer counts them in the chunk alone. Only a
            single character of more tokens is a larger chunk.
        overlap: most tokens, by the count of the whole text, that a chunk repeats of the one
            before, in units of the kind at whose edge that one ends; less than ``capacity``.
    """

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        bodies = [text.rstrip() for text in texts]
        for text, token_starts in zip(bodies, starts.of(bodies), strict=True):
            marks = Marks(text, token_starts, (*edges(text), [0, *token_starts, len(text)]))
            spans = list(_spans(marks, capacity, overlap, None))
            if not _all_fit(marks, spans, starts, capacity):
                spans = list(_spans(marks, capacity, overlap, starts.counter(text)))
            yield [Piece(*span) for span in spans if text[span[0] : span[1]].strip()]

    return cut


def _all_fit(marks: Marks, spans: Sequence[Span], starts: TokenStarts, capacity: int) -> bool:
    """Return whether no chunk has too many tokens; tokenizes those whose sum is not exact."""
    words = marks.kinds[WORD]
    unsure = [
        span
        for span in spans
        if not starts.adds_up or any(words[bisect_left(words, edge)] != edge for edge in span)
    ]
    counts = starts.counts([marks.text[start:end] for start, end in unsure]) if unsure else []
    return max(counts, default=0) <= capacity


def _spans(marks: Marks, capacity: int, overlap: int, count: Count | None) -> Iterator[Span]:
    """Cut from the beginning to the end; with ``count`` every chunk is counted on the way."""
    start = done = len(marks.text) - len(marks.text.lstrip())
    while done < len(marks.text):
        end, kind = _end(marks, start, done, capacity, count)
        if start < done and kind > WORD:
            # Without the overlap the cut may be at a better place, or the only one that fits.
            start = done
            end, kind = _end(marks, start, done, capacity, count)
        yield start, end
        start, done = _next_start(marks, start, end, kind, overlap), end


def _end(
    marks: Marks, start: int, done: int, capacity: int, count: Count | None
) -> tuple[int, int]:
    """Return the best end, behind ``done``, of a chunk that begins at ``start``, and its kind."""
    most = capacity
    while (edge := _best_edge(marks, start, done, most)) is not None:
        excess = 0 if count is None else count(start, edge[0]) - capacity
        if excess <= 0:
            return edge
        most -= min(excess, max(most // 2, 1))
    return _smallest(marks, done, capacity, count), len(marks.kinds) - 1


def _smallest(marks: Marks, start: int, capacity: int, count: Count | None) -> int:
    """Return the end of a chunk that no edge makes small enough: of one token, or a part of it."""
    places = marks.kinds[-1]
    end = places[bisect_right(places, start)]
    while count is not None and end > start + 1 and count(start, end) > capacity:
        end = (start + 1 + end) // 2
    return end


def _best_edge(marks: Marks, start: int, done: int, most: int) -> tuple[int, int] | None:
    """Return the edge behind ``done`` with at most ``most`` tokens since ``start``."""
    if most < 1:
        return None
    beyond = bisect_left(marks.starts, start) + most
    limit = marks.starts[beyond] if beyond < len(marks.starts) else len(marks.text)
    for kind, places in enumerate(marks.kinds):
        last = bisect_right(places, limit) - 1
        if places[last] > done:
            return (places[last] if kind <= WORD else _whole(marks, last, done)), kind
    return None


def _whole(marks: Marks, place: int, done: int) -> int:
    """Return the last edge of a token, not behind ``place``, that parts no visible character."""
    places = marks.kinds[-1]
    back = place
    while places[back] > done and _joined(marks.text, places[back]):
        back -= 1
    return places[back] if places[back] > done else places[place]


def _joined(text: str, place: int) -> bool:
    if not 0 < place < len(text):
        return False
    after = text[place]
    return text[place - 1] == "\u200d" or after in _JOINERS or bool(unicodedata.combining(after))


def _next_start(marks: Marks, start: int, end: int, kind: int, overlap: int) -> int:
    """Return where the next chunk begins: at an edge of ``kind`` behind ``start``, up to ``end``.

    Between it and ``end`` begin at most ``overlap`` tokens.
    """
    if overlap == 0:
        return end
    first = max(bisect_left(marks.starts, end) - overlap, 0)
    earliest = max(marks.starts[first] if first < len(marks.starts) else end, start + 1)
    places = marks.kinds[kind]
    return min(places[bisect_left(places, earliest)], end)


class TokenStarts:
    """The beginnings of tokens, each word tokenized once, behind a blank.

    ``adds_up`` says whether a slice of a text that is cut between words has exactly the tokens of
    its words: true of BERT's tokenizers, which look at each word alone. For others, which
    count the blank before a word or merge blanks, the sum is near.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Count by ``tokenizer``, which neither truncates nor pads."""
        self._tokenizer = tokenizer
        self._cached: dict[str, tuple[int, ...]] = {}
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
        encodings = self._tokenizer.encode_batch_fast(list(slices), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def counter(self, text: str) -> Count:
        """Return what counts the tokens of a slice of a text, by its start and end."""
        return lambda start, end: self.counts([text[start:end]])[0]

    def _tokenized(self, words: set[str]) -> dict[str, tuple[int, ...]]:
        lines = list(_lines(sorted(words - self._cached.keys())))
        texts = [" ".join(line) for line in lines]
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        new_starts: dict[str, tuple[int, ...]] = {}
        for line, encoding in zip(lines, encodings, strict=True):
            new_starts |= _by_word(line, [start for start, _ in encoding.offsets])
        if len(self._cached) + len(new_starts) > MAX_CACHED_WORDS:
            self._cached = {word: self._cached[word] for word in words if word in self._cached}
        starts = {word: self._cached[word] for word in words if word in self._cached} | new_starts
        self._cached.update((w, s) for w, s in new_starts.items() if len(w) <= MAX_CACHED_LENGTH)
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
    by_line: list[list[int]] = [[] for _ in line]
    for start in accumulate(starts, max):
        number = bisect_right(begins, start + 1) - 1
        by_line[number].append(max(start - begins[number], 0))
    return dict(zip(line, map(tuple, by_line), strict=True))


def _looks_at_each_word_alone(tokenizer: Tokenizer) -> bool:
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
    kinds = tuple(type(part).__name__ for part in parts)
    return kinds == ("BertNormalizer", "BertPreTokenizer", "WordPiece") and not any(
        token.lstrip or token.rstrip or token.single_word or not _WORD.fullmatch(token.content)
        for token in tokenizer.get_added_tokens_decoder().values()
    )


def edges(text: str) -> tuple[list[int], ...]:
    """Return the edges of paragraphs, lines, sentences and words, in order, from 0 to the end.

    A paragraph ends with an empty line. Each kind has the edges of the kinds before it as well.
    """
    places, kinds = [0, len(text)], []
    for pattern in (_PARAGRAPH, _LINE, _SENTENCE, _BLANKS):
        ends = [
            match.end()
            for match in pattern.finditer(text)
            # A full stop that a small letter follows ends no sentence.
            if pattern is not _SENTENCE
            or text[match.start()] != "."
            or not text[match.end() : match.end() + 1].islower()
        ]
        # Two sorted runs cost the sort hardly anything.
        places = list(dict.fromkeys(sorted([*places, *ends])))
        kinds.append(places)
    return tuple(kinds)
