"""Blocks such as ``<DOC>...</DOC>`` of TREC's SGML files, one at a time, and what is in them.

The files are no XML: elements may stay open, and a bare ``&`` or ``<`` is text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.fields import Place, shown
from rag_assets.sources.lines import read_lines

TAG = re.compile(r"<(/?)([A-Za-z][\w.-]*)(?:\s[^<>]*)?>")
_ANY_TAG = re.compile(r"<[^<>]*>")


class Element(NamedTuple):
    """One element: its name in lower case, and what stands between its tags."""

    name: str
    content: str


class Block(NamedTuple):
    """One block: the line on which it starts, its first tag, and what stands up to the last."""

    line: int
    opening: str
    content: str


def read_blocks(path: Path, tag: str, expected: str = "") -> Iterator[Block]:
    """Yield every block of ``tag``, in whatever case.

    Tags outside of the blocks (``<?xml ...?>``, an enclosing element) are passed over.

    Args:
        path: the file.
        tag: the name of a block.
        expected: what the file may hold, where that is more than blocks.

    Raises:
        DataError: a block has no end or no start, stands inside another, or text stands outside.
    """
    mark = re.compile(rf"<(/?){tag}(?:\s[^<>]*)?>", re.IGNORECASE)
    parts: list[str] | None = None
    start, opening = 0, ""
    outside = f"expected {expected or f'<{tag}> blocks'}; found"
    for number, line in read_lines(path, blank=True):
        place, position = Place(path, number), 0
        for match in mark.finditer(line):
            _take(line[position : match.start()], parts, place, outside)
            outside = f"text outside of <{tag}>:"
            closes, position = bool(match.group(1)), match.end()
            if closes == (parts is None):
                raise place.error(_misplaced(tag, start, closes=closes))
            if parts is not None:
                yield Block(start, opening, "".join(parts))
            parts = None if closes else []
            start, opening = (start, opening) if closes else (number, match.group())
        _take(f"{line[position:]}\n", parts, place, outside)
    if parts is not None:
        raise Place(path, start).error(f"<{tag}> has no </{tag}>")


def elements(block: str) -> tuple[list[Element], str]:
    """Return the outer elements of a block, and the text between them.

    A tag that is never closed is passed over; what follows it counts as text.
    """
    tags = [(match, match.group(2).lower()) for match in TAG.finditer(block)]
    last_end = {name: match.start() for match, name in tags if match.group(1)}
    found_elements: list[Element] = []
    between: list[str] = []
    position, opened = 0, ""
    for match, name in tags:
        if opened:
            if match.group(1) and name == opened:
                found_elements.append(Element(name, block[position : match.start()]))
                position, opened = match.end(), ""
            continue
        between.append(block[position : match.start()])
        position = match.end()
        if not match.group(1) and last_end.get(name, -1) > match.start():
            opened = name
    between.append(block[position:])
    return found_elements, "".join(between)


def plain_text(content: str) -> str:
    """Return content without tags and comments, entities resolved, outer white space removed."""
    content = replaced(content, "<!--", "-->", lambda _: "")
    return html.unescape(TAG.sub("", content)).strip()


def replaced(text: str, opening: str, closing: str, by: Callable[[str], str]) -> str:
    """Return a text with all between two marks, and the marks, replaced; one left open stays.

    A pattern ``<!--.*?-->`` would look for the end again from every mark that has none.
    """
    parts: list[str] = []
    position = 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        parts += text[position:start], by(text[start + len(opening) : end])
        position = end + len(closing)
    return "".join([*parts, text[position:]])


def _take(text: str, parts: list[str] | None, place: Place, problem: str) -> None:
    if parts is not None:
        parts.append(text)
        return
    if "<!ENTITY" in text:
        raise place.error("defines an entity; only those of HTML and characters by number are read")
    outside = _ANY_TAG.sub("", text).strip()
    if outside:
        raise place.error(f"{problem} {shown(outside, 30)}")


def _misplaced(tag: str, start: int, *, closes: bool) -> str:
    if closes:
        return f"</{tag}> without <{tag}>"
    return f"<{tag}> inside the <{tag}> of line {start}, which has no </{tag}>"
