"""Topics of TREC: a line a query, classic ``<top>`` blocks, or XML.

XML is ``<topic number="1">`` with a ``<query>``, or ``<query>`` with nothing but text. It is read
as text is, without a parser of XML: nothing that the file defines is ever expanded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.fields import Place, checked_id
from rag_assets.sources.lines import read_lines
from rag_assets.sources.problems import parse_each
from rag_assets.sources.trec_corpus import TAG, Block, elements, plain_text, read_blocks, replaced
from rag_assets.store.canonical import canonical_json

_XML_TAGS = ("topic", "query")
_NUMBER_ATTRIBUTES = ("number", "num", "id", "qid")
_NUMBER_TAGS = ("number", "num", "identifier", "qid", "id")
_TEXT_TAGS = ("query", "title", "question", "summary", "description", "desc", "text")
_ATTRIBUTE = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'<>=]+)")
_LABELS = {"num": "number", "title": "topic", "desc": "description", "narr": "narrative"}
_FIRST_TAG = re.compile(rf"<(top|{'|'.join(_XML_TAGS)})(?:\s[^<>]*)?>", re.IGNORECASE)
_LANGUAGE = re.compile(r"^[a-z]{2}-(?=(?:num|title|desc|narr)$)")
_TEXT_FIELDS = ("title", "desc")


def read_topics(path: Path) -> Iterator[Topic]:
    """Yield every topic of a file.

    A file that begins with a tag holds ``<top>`` blocks: the text of a query is its ``<title>``,
    or its ``<desc>`` where there is no title; other fields are metadata. Names may have a language
    before them, as CLEF's ``<EN-title>``. Where ``<topic>`` or ``<query>`` comes first it is XML.
    Any other file has a line a query: ``id<TAB>text``, or without a tab the id up to the first
    blank.

    Raises:
        DataError: a line has no text, a block has no number or no text, or is not closed.
    """
    first = next((line for _, line in read_lines(path)), "")
    if not first.lstrip().startswith("<"):
        return parse_each(lambda row: _plain_topic(row[1], Place(path, row[0])), read_lines(path))
    matches = (_FIRST_TAG.search(line) for _, line in read_lines(path))
    tag = next((match.group(1).lower() for match in matches if match), "top")
    parse = _xml_topic if tag in _XML_TAGS else _block_topic
    return parse_each(lambda block: parse(block, Place(path, block.line)), read_blocks(path, tag))


def _plain_topic(line: str, place: Place) -> Topic:
    name, tab, text = line.partition("\t")
    if not tab:
        name, blank, text = line.strip().partition(" ")
        if not blank:
            raise place.error("found no text; must be 'id<TAB>text' or 'id text'")
        text = text.lstrip()
    return Topic(place, checked_id(name.strip(), place, "id"), text, "{}")


def _block_topic(block: Block, place: Place) -> Topic:
    fields = _fields(block.content, place)
    if "num" not in fields:
        raise place.error(f"is missing; found: {', '.join(fields) or 'nothing'}", "num")
    used = next((name for name in _TEXT_FIELDS if fields.get(name)), None)
    if used is None:
        raise place.error("is missing or empty, and so is `desc`", "title")
    rest = {key: text for key, text in fields.items() if key not in ("num", used) and text}
    query_id = checked_id(fields["num"], place, "num")
    return Topic(place, query_id, fields[used], canonical_json(rest))


def _fields(block: str, place: Place) -> dict[str, str]:
    """Return the text after each tag up to the next one, without its label."""
    fields: dict[str, str] = {}
    tags = list(TAG.finditer(block))
    ends = [*(tag.start() for tag in tags), len(block)][1:]
    for tag, end in zip(tags, ends, strict=True):
        name = _LANGUAGE.sub("", tag.group(2).lower())
        if tag.group(1):
            continue
        if name in fields:
            raise place.error("occurs twice in one <top>", name)
        fields[name] = _plain_text(name, block[tag.end() : end])
    return fields


def _plain_text(name: str, content: str) -> str:
    text = " ".join(html.unescape(content).split())
    label = _LABELS.get(name)
    return re.sub(rf"^{label}\s*:\s*", "", text, flags=re.IGNORECASE) if label else text


class Topic(NamedTuple):
    """One query: its place, id and text, and its other fields as canonical JSON."""

    place: Place
    query_id: str
    text: str
    metadata: str


def _xml_topic(block: Block, place: Place) -> Topic:
    """Return the topic of an element of one of :data:`_XML_TAGS`.

    The id is the attribute ``number`` (``num``, ``id``, ``qid``), else the element of such a name.
    The text is that of the first of ``<query>``, ``<title>``, ``<question>``, ``<summary>``,
    ``<description>``, ``<desc>``, ``<text>`` that there is, or what stands in the topic without
    any. Other attributes and elements are metadata, a list where one occurs several times.

    Raises:
        DataError: the topic has no number or no text.
    """
    parts, between = elements(replaced(block.content, "<![CDATA[", "]]>", html.escape))
    fields: dict[str, list[str]] = {}
    for element in parts:
        fields.setdefault(element.name, []).append(_folded(element.content))
    attributes = {
        name.lower(): html.unescape(value[1:-1] if value[0] in "\"'" else value)
        for name, value in _ATTRIBUTE.findall(block.opening)
    }
    number = _number(attributes, fields, place)
    used, text = _text(fields, between, place)
    rest: dict[str, str | list[str]] = dict(attributes)
    for name, values in fields.items():
        if name != used and any(values):
            rest[name] = values[0] if len(values) == 1 else values
    return Topic(place, number, text, canonical_json(rest))


def _number(given: dict[str, str], fields: dict[str, list[str]], place: Place) -> str:
    """Return the id, and take it out of where it stood."""
    for name in _NUMBER_ATTRIBUTES:
        if name in given:
            return checked_id(given.pop(name).strip(), place, name)
    for name in _NUMBER_TAGS:
        if name in fields:
            return checked_id(fields.pop(name)[0], place, name)
    raise place.error('is missing; must be <topic number="...">', "number")


def _text(fields: dict[str, list[str]], between: str, place: Place) -> tuple[str | None, str]:
    for name in _TEXT_TAGS:
        if any(fields.get(name, ())):
            if len(fields[name]) > 1:
                raise place.error("occurs twice in one <topic>", name)
            return name, fields[name][0]
    text = _folded(between)
    if not text:
        raise place.error("is missing or empty, and there is no other text", "query")
    return None, text


def _folded(content: str) -> str:
    return " ".join(plain_text(content).split())
