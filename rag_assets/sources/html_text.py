"""The text that a browser would show, block by block."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_HIDDEN = frozenset(
    {"script", "style", "template", "noscript", "head", "svg", "iframe", "object", "datalist"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_PARAGRAPHS = frozenset({"p", "ul", "ol", "dl", "table", "pre", "blockquote", *_HEADINGS})
_BLOCKS = _PARAGRAPHS | {
    *("address", "article", "aside", "body", "caption", "dd", "details", "dialog", "div", "dt"),
    *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "li"),
    *("main", "nav", "option", "section", "summary", "tbody", "tfoot", "thead", "tr"),
}
_CELLS = frozenset({"td", "th"})
# Blanks that HTML folds; a no-break space is not one of them.
_FOLDED = re.compile(r"[ \t\n\r\f]+")


def visible_text(body: LexborNode) -> str:
    """Return the text below a node: one line a block, a blank line around paragraphs.

    Walks without recursion, since pages may nest as deep as they like.
    """
    writer = _Writer()
    node: LexborNode | None = body
    while node is not None:
        tag = node.tag or ""
        if tag == "-text":
            writer.text(node.text_content or "")
        elif tag not in _HIDDEN:
            writer.open(tag)
            if node.child is not None:
                node = node.child
                continue
            writer.close(tag)
        node = _after(node, body, writer)
    return writer.result()


def _after(node: LexborNode, body: LexborNode, writer: _Writer) -> LexborNode | None:
    """Return the next node in document order, closing what ends before it."""
    here: LexborNode | None = node
    # `==` of two nodes compares the HTML of all that is below them.
    while here is not None and here.mem_id != body.mem_id:
        if here.next is not None:
            return here.next
        here = here.parent
        if here is not None:
            writer.close(here.tag or "")
    return None


class _Writer:
    """Puts texts together; blanks are folded, except in ``pre``."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lines_due = 0
        self._blank_is_due = False
        self._prefix = ""
        self._preformatted = 0

    def open(self, tag: str) -> None:
        if tag == "br":
            self._lines_due = min(self._lines_due + 1, 2)
        self._end_block(tag)
        self._preformatted += tag == "pre"
        if tag in _HEADINGS:
            self._prefix = f"{_HEADINGS[tag]} "

    def close(self, tag: str) -> None:
        self._preformatted -= tag == "pre"
        self._end_block(tag)
        if tag in _HEADINGS:
            self._prefix = ""
        elif tag in _CELLS:
            self._blank_is_due = True

    def text(self, text: str) -> None:
        if self._preformatted:
            self._write(text.replace("\r\n", "\n").replace("\r", "\n"))
            return
        folded = _FOLDED.sub(" ", text)
        if folded.startswith(" "):
            self._blank_is_due = True
        if folded.strip(" "):
            self._write(folded.strip(" "))
            self._blank_is_due = folded.endswith(" ")

    def result(self) -> str:
        return "".join(self._parts).rstrip()

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._lines_due:
            self._parts.append("\n" * self._lines_due if self._parts else "")
        elif self._blank_is_due and self._parts:
            self._parts.append(" ")
        self._parts.append(f"{self._prefix}{text}")
        self._lines_due, self._blank_is_due, self._prefix = 0, False, ""

    def _end_block(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._lines_due = max(self._lines_due, 2 if tag in _PARAGRAPHS else 1)
            self._blank_is_due = False
