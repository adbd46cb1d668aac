"""Documents and topics in TREC's SGML files, and topics in XML, one block at a time.

The files are no XML: elements may stay open, and a bare ``&`` or ``<`` is text. XML is read the
same way, without a parser of XML: nothing that a file defines is ever expanded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.fields import Place, checked_id, shown
from rag_assets.sources.problems import FIRST, Problems
from rag_assets.sources.row_files import read_lines
from rag_assets.store.canonical import canonical_json

_TAG = re.compile(r"<(/?)([A-Za-z][\w.-]*)(?:\s[^<>]*)?>")
_ANY_TAG = re.compile(r"<[^<>]*>")
_ATTRIBUTE = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'<>=]+)")

_TITLE_TAGS = ("title", "headline", "head", "hl", "ti", "ttl")
_NUMBERS = ("number", "num", "identifier", "qid", "id")
_TOPIC_TEXTS = ("query", "title", "question", "summary", "description", "desc", "text")
_FIRST_TAG = re.compile(r"<(top|topic|query)(?:\s[^<>]*)?>", re.IGNORECASE)
_LABELS = {"num": "number", "title": "topic", "desc": "description", "narr": "narrative"}
_LANGUAGE = re.compile(r"^[a-z]{2}-(?=(?:num|title|desc|narr)$)")

Fields = dict[str, list[str]]
Document = tuple[str, str, str, str]
"""Id, title, text and metadata of a document."""

Topic = tuple[str, str, str]
"""Id and text of a query, and its other fields as canonical JSON."""


class _Block(NamedTuple):
    """The first tag of a block, and what stands up to the last."""

    opening: str
    content: str


def read_documents(path: Path) -> Iterator[tuple[Place, str]]:
    """Yield place and content of every ``<DOC>``, as :func:`document` takes it."""
    expected = "a TREC corpus: <DOC> blocks, or JSON lines in a file .jsonl"
    return ((place, block.content) for place, block in _blocks(path, "DOC", expected))


def document(place: Place, block: str) -> Document:
    """Return the document of a block.

    The text is that of all ``<TEXT>`` elements, or where there is none all that is not the title;
    the title is the first of ``<TITLE>``, ``<HEADLINE>``, ``<HEAD>``, ``<HL>``, ``<TI>``,
    ``<TTL>``. What is neither becomes metadata.
    """
    parts, between = _elements(block)
    numbers = [content.strip() for name, content in parts if name == "docno"]
    if len(numbers) != 1:
        problem = "occurs twice in one <DOC>" if numbers else "is missing in this <DOC>"
        raise place.error(problem, "DOCNO")
    document_id = checked_id(numbers[0], place, "DOCNO")
    title = next((e for tag in _TITLE_TAGS for e in parts if e[0] == tag), None)
    rest = [e for e in parts if e is not title and e[0] != "docno"]
    texts = [_plain_text(content) for name, content in rest if name == "text"]
    fields: Fields = {}
    if not texts:
        texts = [t for t in map(_plain_text, (between, *(content for _, content in rest))) if t]
    else:
        for name, content in rest:
            if name != "text":
                fields.setdefault(name, []).append(_plain_text(content))
    return document_id, _folded(title[1]) if title else "", "\n".join(texts), _metadata(fields)


def read_topics(path: Path, problems: Problems = FIRST) -> Iterator[tuple[Place, Topic]]:
    """Yield every topic of a file.

    A file that begins with a tag holds ``<top>`` blocks, or ``<topic>`` or ``<query>``. The id is
    an attribute or element ``number``, ``num``, ``identifier``, ``qid`` or ``id``; the text the
    first of ``<query>``, ``<title>``, ``<question>``, ``<summary>``, ``<description>``, ``<desc>``,
    ``<text>`` that there is, or what stands in the topic without any. Names may have a language
    before them, as CLEF's ``<EN-title>``. All else is metadata, a list where one occurs several
    times. Any other file has a line a query: ``id<TAB>text``, or without a tab the id up to the
    first blank.
    """
    first = next((line for _, line in read_lines(path)), "")
    if not first.lstrip().startswith("<"):
        return problems.each(_line_topic, read_lines(path, problems))
    matches = (_FIRST_TAG.search(line) for _, line in read_lines(path))
    tag = next((match.group(1).lower() for match in matches if match), "top")
    fields_of = _open_fields if tag == "top" else _closed_fields
    return problems.each(lambda block: _block_topic(*block, fields_of), _blocks(path, tag))


def _line_topic(line: tuple[Place, str]) -> tuple[Place, Topic]:
    place, text = line
    name, tab, query = text.partition("\t")
    if not tab:
        name, blank, query = text.strip().partition(" ")
        if not blank:
            raise place.error("found no text; must be 'id<TAB>text' or 'id text'")
        query = query.lstrip()
    return place, (checked_id(name.strip(), place, "id"), query, "{}")


def _block_topic(
    place: Place, block: _Block, fields_of: Callable[[str], tuple[Fields, str]]
) -> tuple[Place, Topic]:
    fields, between = fields_of(block.content)
    for name, value in _ATTRIBUTE.findall(block.opening):
        unquoted = value[1:-1] if value[0] in "\"'" else value
        fields.setdefault(name.lower(), []).insert(0, html.unescape(unquoted).strip())
    number = next((name for name in _NUMBERS if name in fields), "num")
    used = next((name for name in _TOPIC_TEXTS if any(fields.get(name, ()))), None)
    for name in (number, used or number):
        if len(fields.get(name, ())) > 1:
            raise place.error("occurs twice in one topic", name)
    if number not in fields:
        raise place.error(f"is missing; found: {', '.join(fields) or 'nothing'}", number)
    query_id = checked_id(fields.pop(number)[0], place, number)
    text = fields.pop(used)[0] if used else _folded(between)
    if not text:
        raise place.error("is missing or empty, and there is no other text", "title")
    rest = {name: values for name, values in fields.items() if any(values)}
    return place, (query_id, text, _metadata(rest))


def _open_fields(block: str) -> tuple[Fields, str]:
    """Return the text after each tag up to the next one, without its label."""
    fields: Fields = {}
    tags = list(_TAG.finditer(block))
    ends = [*(tag.start() for tag in tags), len(block)][1:]
    for tag, end in zip(tags, ends, strict=True):
        if not tag.group(1):
            name = _LANGUAGE.sub("", tag.group(2).lower())
            text = " ".join(html.unescape(block[tag.end() : end]).split())
            label = rf"^{_LABELS[name]}\s*:\s*" if name in _LABELS else "^"
            fields.setdefault(name, []).append(re.sub(label, "", text, flags=re.IGNORECASE))
    return fields, ""


def _closed_fields(block: str) -> tuple[Fields, str]:
    """Return the text of each element, and the text between them."""
    fields: Fields = {}
    parts, between = _elements(_replaced(block, "<![CDATA[", "]]>", html.escape))
    for name, content in parts:
        fields.setdefault(name, []).append(_folded(content))
    return fields, between


def _metadata(fields: Fields) -> str:
    return canonical_json({name: v[0] if len(v) == 1 else v for name, v in fields.items()})


def _blocks(path: Path, tag: str, expected: str = "") -> Iterator[tuple[Place, _Block]]:
    """Yield every block of ``tag``, in whatever case, with the place of its start.

    Tags outside of the blocks (``<?xml ...?>``, an enclosing element) are passed over.
    """
    mark = re.compile(rf"<(/?){tag}(?:\s[^<>]*)?>", re.IGNORECASE)
    parts: list[str] | None = None
    start, opening = Place(path), ""
    outside = f"expected {expected or f'<{tag}> blocks'}; found"
    for place, line in read_lines(path, blank=True):
        position = 0
        for match in mark.finditer(line):
            _take(line[position : match.start()], parts, place, outside)
            outside = f"text outside of <{tag}>:"
            closes, position = bool(match.group(1)), match.end()
            if closes and parts is None:
                raise place.error(f"</{tag}> without <{tag}>")
            if not closes and parts is not None:
                raise place.error(f"<{tag}> inside the <{tag}> of line {start.line}")
            if parts is not None:
                yield start, _Block(opening, "".join(parts))
                parts = None
            else:
                start, opening, parts = place, match.group(), []
        _take(f"{line[position:]}\n", parts, place, outside)
    if parts is not None:
        raise start.error(f"<{tag}> has no </{tag}>")


def _take(text: str, parts: list[str] | None, place: Place, problem: str) -> None:
    if parts is not None:
        parts.append(text)
    elif outside := _ANY_TAG.sub("", text).strip():
        raise place.error(f"{problem} {shown(outside, 30)}")


def _elements(block: str) -> tuple[list[tuple[str, str]], str]:
    """Return name and content of the outer elements of a block, and the text between them.

    A tag that is never closed is passed over; what follows it counts as text.
    """
    tags = [(match, match.group(2).lower()) for match in _TAG.finditer(block)]
    last_end = {name: match.start() for match, name in tags if match.group(1)}
    elements: list[tuple[str, str]] = []
    between: list[str] = []
    position, opened = 0, ""
    for match, name in tags:
        if opened:
            if match.group(1) and name == opened:
                elements.append((name, block[position : match.start()]))
                position, opened = match.end(), ""
            continue
        between.append(block[position : match.start()])
        position = match.end()
        if not match.group(1) and last_end.get(name, -1) > match.start():
            opened = name
    between.append(block[position:])
    return elements, "".join(between)


def _folded(content: str) -> str:
    return " ".join(_plain_text(content).split())


def _plain_text(content: str) -> str:
    """Return content without tags and comments, entities resolved, outer white space removed."""
    content = _replaced(content, "<!--", "-->", lambda _: "")
    return html.unescape(_TAG.sub("", content)).strip()


def _replaced(text: str, opening: str, closing: str, by: Callable[[str], str]) -> str:
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
