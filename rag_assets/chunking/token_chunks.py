"""Chunks of so many tokens, cut at the largest unit of text that fits.

The text is tokenized once. From the beginning of a chunk on, the edges of paragraphs, else of
lines, sentences, words, tokens are looked at: the first kind of which one lies within the capacity
is taken, and of this kind the last edge that does. That is the rule of semantic-text-splitter,
which counts the tokens of every candidate anew.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rag_assets.chunking.edges import WORD, edges
from rag_assets.chunking.pieces import Cutter, Piece, Span
from rag_assets.chunking.token_starts import TokenStarts

_JOINERS = "\u200d\ufe0e\ufe0f"

Count = Callable[[int, int], int]


class Marks(NamedTuple):
    """A text, where its tokens begin, and its edges: of every kind, the largest first."""

    text: str
    starts: list[int]
    kinds: tuple[list[int], ...]


def cutter(starts: TokenStarts, capacity: int, overlap: int) -> Cutter:
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
        for text, found in zip(bodies, starts.of(bodies), strict=True):
            marks = Marks(text, found, (*edges(text), [0, *found, len(text)]))
            spans = list(_spans(marks, capacity, overlap, None))
            if not _all_fit(marks, spans, starts, capacity):
                spans = list(_spans(marks, capacity, overlap, _counter(text, starts)))
            yield [Piece(*span) for span in spans if text[span[0] : span[1]].strip()]

    return cut


def _all_fit(marks: Marks, spans: Sequence[Span], starts: TokenStarts, capacity: int) -> bool:
    """Return whether no chunk has too many tokens; tokenizes those whose sum is not exact."""
    words = marks.kinds[WORD]
    unsure = [span for span in spans if not (starts.adds_up and _at_words(words, span))]
    counts = starts.counts([marks.text[start:end] for start, end in unsure]) if unsure else []
    return max(counts, default=0) <= capacity


def _at_words(words: Sequence[int], span: Span) -> bool:
    return all(words[bisect_left(words, edge)] == edge for edge in span)


def _counter(text: str, starts: TokenStarts) -> Count:
    return lambda start, end: starts.counts([text[start:end]])[0]


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
    while (found := _best_edge(marks, start, done, most)) is not None:
        excess = 0 if count is None else count(start, found[0]) - capacity
        if excess <= 0:
            return found
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
