"""Markdown as text to be read: its marks are left out, and every character keeps its place.

Nothing becomes HTML. What is left out: the marks of headings, emphasis, code, links (with their
addresses), quotes and rules, the commonest HTML tags, and the borders of tables, whose cells are
divided by a dot; the marks of list items become dots. A text without any line that only Markdown
has is left as it is, and so is what may be no mark, as in ``2 * 3`` and ``snake_case``.

Every pattern has bounds, so that a text of any shape is read in linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

_IS_MARKDOWN = re.compile(r"^(?:#{1,6} \S|```|~~~| {0,3}\|? ?:?-{3})|\]\(\S|\*\*\S", re.M)

_LINE = r"^[\0 \t]{0,40}"
_INSIDE = r"(?:(?!(?P=a))[^\n]|\n(?![\0 \t]*\n)){1,600}?"
"""Within a paragraph, up to the mark that closes what ``a`` opened."""

_FENCE = re.compile(r"^[ \t]{0,40}(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)\n?", re.M)
_CODE = re.compile(rf"(?<![`\\])(?P<a>`{{1,3}})(?!`){_INSIDE}(?P<z>(?P=a))(?!`)")
_ESCAPE = re.compile(r"(?P<a>\\)[!-/:-@\[-`{-~]")
_QUOTE = re.compile(rf"{_LINE}(?P<a>(?:> ?){{1,5}})", re.M)
_BAR = (
    r"(?:={3,200}[ \t]{0,20}|(?:[-*_][ \t]{0,3}){3,200}"
    r"|(?=[^\n]{0,2000}?(?:--|\|-|:-))[-|: \t]{2,2000})"
)
_RULE = re.compile(rf"(?<=\n\n){_LINE}(?P<a>{_BAR}(?:\n\n?|\Z))", re.M)
_UNDERLINE = re.compile(rf"{_LINE}(?P<a>{_BAR}(?:\n|\Z))", re.M)
_HEADING = re.compile(rf"{_LINE}(?P<a>#{{1,6}}[ \t]{{1,20}})(?=\S)", re.M)
_ANCHOR = re.compile(r"(?P<a>[ \t]{1,9}\{ ?[#.:][^}\n]{1,100}\}[ \t]{0,9})$", re.M)
_ITEM = re.compile(rf"{_LINE}(?P<item>[-*+])(?=[ \t]{{1,20}}\S)", re.M)
_ROW = re.compile(rf"{_LINE}\|[^\n]*", re.M)
_LINK = re.compile(
    r"(?P<a>!?\[)(?:[^\[\]\n]|\n(?![\0 \t]*\n)){0,600}"
    r"(?P<z>\]\((?:[^()\s]|\([^()\s]{0,200}\)){0,2000}(?:\s{1,9}\"[^\"\n]{0,300}\")?\)"
    r"(?:\{ ?[#.:][^}\n]{1,200}\})?)"
)
_ADDRESS = re.compile(r"(?P<a><)(?:https?://|mailto:)[^<>\s]{1,2000}(?P<z>>)")
_TAG = re.compile(
    r"(?P<a></?(?:a|b|br|center|details|div|em|h[1-6]|hr|i|img|kbd|p|small|span|strong|sub|summary"
    r"|sup|table|tbody|td|th|thead|tr)(?:[ \t\n][^<>]{0,600})?/?>|<!--(?:(?!--)[^<>]){0,600}-->)",
    re.I,
)
_STRONG = re.compile(rf"(?<![\\*~])(?P<a>\*{{2,3}}|~~)(?=[^\s*~]){_INSIDE}(?<=\S)(?P<z>(?P=a))")
_EMPHASIS = re.compile(
    rf"(?<![\w\\*])(?P<a>\*|_{{1,2}})(?=[^\s*_]){_INSIDE}(?<=[^\s*_])(?P<z>(?P=a))(?![\w*])"
)

# An image may be the text of a link, and emphasis may stand in emphasis.
_PAIRS = (_LINK, _LINK, _ADDRESS, _STRONG, _EMPHASIS, _STRONG, _EMPHASIS)

ITEM, CELL = "\u2022", "\u00b7"


class Part(NamedTuple):
    """A part of a text as it is read.

    Attributes:
        text: without marks.
        gaps: a place in ``text``, and how many characters of the source were left out there; what
            follows the last character has the place behind it.
    """

    text: str
    gaps: list[tuple[int, int]]


@dataclass(frozen=True)
class ReadableText:
    """A whole text, of which parts are shown.

    Attributes:
        source: as long as the text; some marks are other characters.
        marks: first character of what is left out, and the one behind it; in order, without
            overlaps.
    """

    source: str
    marks: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> ReadableText:
        """Find the marks of a text."""
        if not _IS_MARKDOWN.search(text):
            return cls(text, [])
        reading = _Reading(text)
        reading.read()
        source = list(text)
        for place, character in reading.swaps.items():
            source[place] = character
        return cls("".join(source), sorted(reading.marks))

    def part(self, start: int, end: int) -> Part:
        """Return the characters from ``start`` to ``end``, of Markdown without blanks around."""
        if not self.marks:
            return Part(self.source[start:end], [])
        pieces: list[str] = []
        gaps: Counter[int] = Counter()
        length, position = 0, start
        first = bisect_right(self.marks, start, key=lambda mark: mark[1])
        for a, b in [*self._within(first, start, end), (end, end)]:
            piece = self.source[position:a]
            shown = piece if length else piece.lstrip("\n")
            if shown != piece:
                gaps[0] += len(piece) - len(shown)
            pieces.append(shown)
            length += len(shown)
            if b > a:
                gaps[length] += b - a
            position = b
        text = "".join(pieces)
        shown = text.rstrip()
        kept = [(place, size) for place, size in gaps.items() if place < len(shown)]
        behind = end - start - len(shown) - sum(size for _, size in kept)
        return Part(shown, [*kept, (len(shown), behind)] if behind else kept)

    def _within(self, first: int, start: int, end: int) -> list[tuple[int, int]]:
        """Return the marks from number ``first`` on, as far as they are between start and end."""
        marks = []
        for a, b in self.marks[first:]:
            if a >= end:
                break
            marks.append((max(a, start), min(b, end)))
        return marks


def readable_title(title: str) -> str:
    """Return a title as it is read: ``{ #anchor }`` and other marks are left out."""
    heading = f"# {title}"
    return ReadableText.of(heading).part(0, len(heading)).text if title.strip() else title


class _Reading:
    """Finds marks one kind after the other; what was read is hidden from the next kinds."""

    def __init__(self, text: str) -> None:
        self.marks: list[tuple[int, int]] = []
        self.swaps: dict[int, str] = {}
        self._text = text

    def read(self) -> None:
        """Find all marks."""
        self._hide_fenced_code()
        self._text = _CODE.sub(lambda found: self._marked(found, whole=True), self._text)
        self._text = _ESCAPE.sub(lambda found: self._marked(found, whole=True), self._text)
        for pattern in (_TAG, _QUOTE, _RULE, _UNDERLINE, _HEADING, _ANCHOR):
            self._text = pattern.sub(self._marked, self._text)
        self._text = _ITEM.sub(self._item, self._text)
        self._text = _ROW.sub(self._row, self._text)
        for pattern in _PAIRS:
            self._text = pattern.sub(self._marked, self._text)

    def _hide_fenced_code(self) -> None:
        pieces, position, fence = [], 0, ""
        for line in _FENCE.finditer(self._text):
            closes = line["fence"].startswith(fence) and not line["info"].strip()
            if fence and not closes:
                continue
            self.marks.append(line.span())
            piece = self._text[position : line.start()]
            pieces += [_hidden(piece) if fence else piece, _hidden(line[0])]
            position, fence = line.end(), "" if fence else line["fence"]
        rest = self._text[position:]
        self._text = "".join([*pieces, _hidden(rest) if fence else rest])

    def _marked(self, found: re.Match[str], *, whole: bool = False) -> str:
        """Keep the marks ``a`` and ``z``; return the match with them hidden, or all of it."""
        text = found[0]
        for name in found.groupdict():
            start, end = found.span(name)
            self.marks.append((start, end))
            a, b = start - found.start(), end - found.start()
            text = text[:a] + _hidden(text[a:b]) + text[b:]
        return _hidden(text) if whole else text

    def _item(self, found: re.Match[str]) -> str:
        self.swaps[found.start("item")] = ITEM
        return found[0][:-1] + "\0"

    def _row(self, found: re.Match[str]) -> str:
        """Divide the cells of a row by dots, and leave out its borders and what fills cells up."""
        cells = found[0].split("|")
        place = found.start()
        is_closed = not cells[-1].strip(" \t\r")
        last = len(cells) - (2 if is_closed else 1)
        for number, cell in enumerate(cells):
            text = cell.strip(" \t\r")
            before = len(cell) - len(cell.lstrip(" \t\r"))
            after = len(cell) - before - len(text)
            # One blank on either side of a dot stays.
            end = place + len(cell)
            self._leave_out(place, place + before - (1 if 1 < number <= last else 0))
            self._leave_out(end - after + (1 if 0 < number < last else 0), end)
            if number < len(cells) - 1:
                if 0 < number < last:
                    self.swaps[end] = CELL
                else:
                    self._leave_out(end, end + 1)
            place = end + 1
        return "\0".join(cells)

    def _leave_out(self, start: int, end: int) -> None:
        if end > start:
            self.marks.append((start, end))


def _hidden(text: str) -> str:
    """Return as many characters that mean nothing; lines stay lines."""
    return "\n".join("\0" * len(line) for line in text.split("\n"))
