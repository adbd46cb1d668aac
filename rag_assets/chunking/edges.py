"""Where a text may be cut: at the edges of its paragraphs, lines, sentences and words.

An edge is where the next unit begins, so blanks belong to the unit before them.
"""

from __future__ import annotations

import re

BLANK = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space that parts words for every tokenizer, as the inside of a regular expression's class.

The other characters that ``str.isspace`` takes for white space (U+000B, U+000C, U+001C to U+001F,
U+0085) are control characters, which some tokenizers drop, so that the words on both sides join.
"""

_LINE_END = r"(?:\n|\r(?!\n)|[\u2028\u2029])"
_LINE = re.compile(rf"{_LINE_END}[{BLANK}]*")
_PARAGRAPH = re.compile(rf"{_LINE_END}[{BLANK}]*{_LINE_END}[{BLANK}]*")
_WORD = re.compile(rf"[{BLANK}]+")

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


def edges(text: str) -> tuple[list[int], ...]:
    """Return the edges of paragraphs, lines, sentences and words, in order, from 0 to the end.

    A paragraph ends with an empty line. Each kind has the edges of the kinds before it as well.
    """
    kinds = (_paragraph_ends(text), _line_ends(text), _sentence_ends(text), _word_ends(text))
    found = [0, len(text)]
    return tuple(found := _united(found, kind) for kind in kinds)


def _united(edges: list[int], others: list[int]) -> list[int]:
    """Unite sorted numbers; two sorted runs cost the sort hardly anything."""
    return list(dict.fromkeys(sorted([*edges, *others])))


def _paragraph_ends(text: str) -> list[int]:
    return [match.end() for match in _PARAGRAPH.finditer(text)]


def _line_ends(text: str) -> list[int]:
    return [match.end() for match in _LINE.finditer(text)]


def _word_ends(text: str) -> list[int]:
    return [match.end() for match in _WORD.finditer(text)]


def _sentence_ends(text: str) -> list[int]:
    """Return where sentences end; not behind a full stop that a small letter follows."""
    found = []
    for match in _SENTENCE.finditer(text):
        end = match.end()
        if text[match.start()] != "." or not text[end : end + 1].islower():
            found.append(end)
    return found
