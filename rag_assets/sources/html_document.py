"""One HTML page as title, text and metadata.

selectolax parses as browsers do (HTML5), so that no markup is an error. All text that a browser
would show is kept, in order and block by block: a page is not cut down to its "main content",
because evidence that a heuristic threw away could never be found, and nobody would see why.

A page whose nesting would cost the parser more than its size is refused before it is parsed. As the
standard has it (https://html.spec.whatwg.org/multipage/parsing.html), a parser looks at the
elements that are open for each tag, and opens formatting elements that nobody closed again in each
block. So a page of 1 MB may take a minute, and one of 50 kB gigabytes.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.errors import DataError
from rag_assets.input_files import read_bytes

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode


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
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.I)
_DECLARED_WITHIN = 1_024

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = frozenset({"author", "date", "description", "keywords"})


def read_html(path: Path) -> tuple[str, str, dict[str, str]]:
    """Return title, text and metadata of a page.

    The title is ``<title>``, or else the first ``<h1>``. The text has a line for each block and a
    blank line around headings, which keep their level as ``#`` marks. Metadata: the language and
    the ``<meta>`` fields author, date, description and keywords. The encoding is that of the byte
    order mark, or else the declared one, or else UTF-8.

    Raises:
        DataError: the file cannot be read, its encoding is unknown or broken, or its elements lie
            too deep in each other.
        ImportError: selectolax is not installed.
    """
    from selectolax.lexbor import LexborHTMLParser

    content = _decoded(read_bytes(path), path)
    if _nests_too_much(content):
        problem = "has too many elements that stay open inside each other to be read as HTML"
        raise DataError(problem, file=path)
    page = LexborHTMLParser(content)
    title = _words(page, "title") or _words(page, "h1")
    text = _visible_text(page.body) if page.body is not None else ""
    return title, text, _metadata(page)


def _decoded(data: bytes, path: Path) -> str:
    name = _encoding(data)
    try:
        # As browsers do: pages that say Latin-1 or ASCII mean its superset.
        latin = codecs.lookup(name).name in ("iso8859-1", "ascii")
        text = data.decode("cp1252" if latin else name)
        text.encode()
        return text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"not {name}: byte 0x{data[error.start]:02x}"
        raise DataError(problem, file=path, line=line) from error
    except (LookupError, UnicodeError) as error:
        raise DataError(f"declares the encoding {name!a}, which is unknown", file=path) from error


def _encoding(data: bytes) -> str:
    for mark, name in _BOMS:
        if data.startswith(mark):
            return name
    declared = _CHARSET.search(data[:_DECLARED_WITHIN])
    return declared.group(1).decode().lower() if declared else "utf-8"


def _words(page: LexborHTMLParser, selector: str) -> str:
    node = page.css_first(selector)
    return " ".join(node.text().split()) if node is not None else ""


def _metadata(page: LexborHTMLParser) -> dict[str, str]:
    fields: dict[str, str] = {}
    for node in page.css("meta[name][content]"):
        name = (node.attributes.get("name") or "").lower()
        content = node.attributes.get("content")
        if name in _META and content and name not in fields:
            fields[name] = content
    root = page.css_first("html")
    language = root.attributes.get("lang") if root is not None else None
    return {**fields, "lang": language} if language else fields


def _visible_text(body: LexborNode) -> str:
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


MAX_LOOKS = 100_000_000
"""Open elements that are looked at for all tags together: 0.3 s."""

MAX_REOPENED = 300_000
"""Formatting elements that are opened again for all blocks together: 100 MB."""

MIN_TAGS = 500
"""A page with fewer of them cannot cost much."""

MAX_ALIKE = 3
"""Of equal formatting elements a parser opens only so many again."""

_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</\1|\Z)"
    r"|<(/?)([a-z][^\s/>]*)"
    r"((?:[\s/]+|[^\s/>][^\s/>=]*+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'>][^\s>]*)?)?)*+)(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_FORMATTING = frozenset(
    {"b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"}
)
_NEVER_OPEN = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    }
)
_CLOSED_BY_OTHERS = _NEVER_OPEN | {
    *("a", "body", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "head", "html", "li", "nobr"),
    *("optgroup", "option", "p", "rb", "rp", "rt", "rtc", "tbody", "td", "tfoot", "th", "thead"),
    "tr",
}


def _nests_too_much(page: str) -> bool:
    """Return whether a page would cost a parser too much, by its tags; comments hold none."""
    if page.count("<") < MIN_TAGS:
        return False
    depth = looks = reopened = n_formatting = 0
    opened: dict[str, list[str]] = {name: [] for name in _FORMATTING}
    alike: Counter[tuple[str, str]] = Counter()
    for _, closes, name, attributes in (match.groups() for match in _TOKEN.finditer(page)):
        tag = (name or "").lower()
        if tag in _FORMATTING and not closes:
            opened[tag].append(attributes)
            alike[tag, attributes] += 1
            n_formatting += alike[tag, attributes] <= MAX_ALIKE
        elif tag in _FORMATTING and opened[tag]:
            last = opened[tag].pop()
            alike[tag, last] -= 1
            n_formatting -= alike[tag, last] < MAX_ALIKE
        elif tag and not closes:
            reopened += n_formatting
        if tag and tag not in _CLOSED_BY_OTHERS:
            depth = max(0, depth - 1) if closes else depth + 1
        looks += depth
        if looks > MAX_LOOKS or reopened > MAX_REOPENED:
            return True
    return False
