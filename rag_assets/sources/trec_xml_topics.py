"""Topics as XML: ``<topic number="1">`` with a ``<query>``, or ``<query>`` with nothing but text.

It is read as text is, without a parser of XML: nothing that the file defines is ever expanded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from rag_assets.sources.fields import Place, checked_id
from rag_assets.sources.problems import tolerated
from rag_assets.sources.tagged_blocks import elements, plain_text, read_blocks, replaced
from rag_assets.sources.topic import Topic
from rag_assets.store.canonical import canonical_json

TAGS = ("topic", "query")

_NUMBER_ATTRIBUTES = ("number", "num", "id", "qid")
_NUMBER_TAGS = ("number", "num", "identifier", "qid", "id")
_TEXT_TAGS = ("query", "title", "question", "summary", "description", "desc", "text")
_ATTRIBUTE = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'<>=]+)")


def read_xml_topics(path: Path, tag: str) -> Iterator[Topic]:
    """Yield every topic of a file whose topics are elements of ``tag``, one of :data:`TAGS`.

    The id is the attribute ``number`` (``num``, ``id``, ``qid``), else the element of such a name.
    The text is that of the first of ``<query>``, ``<title>``, ``<question>``, ``<summary>``,
    ``<description>``, ``<desc>``, ``<text>`` that there is, or what stands in the topic without
    any. Other attributes and elements are metadata, a list where one occurs several times.

    Raises:
        DataError: a topic has no number or no text, or is not closed.
    """
    for block in read_blocks(path, tag):
        topic = None
        with tolerated():
            topic = _topic(block.opening, block.content, Place(path, block.line))
        if topic is not None:
            yield topic


def _topic(opening: str, block: str, place: Place) -> Topic:
    block = replaced(block, "<![CDATA[", "]]>", html.escape)
    found, between = elements(block)
    fields: dict[str, list[str]] = {}
    for element in found:
        fields.setdefault(element.name, []).append(_folded(element.content))
    given = {m.group(1).lower(): html.unescape(_unquoted(m.group(2))) for m in _attributes(opening)}
    number = _number(given, fields, place)
    used, text = _text(fields, between, place)
    rest: dict[str, str | list[str]] = dict(given)
    for name, values in fields.items():
        if name != used and any(values):
            rest[name] = values[0] if len(values) == 1 else values
    return Topic(place, number, text, canonical_json(rest))


def _attributes(opening: str) -> Iterator[re.Match[str]]:
    return _ATTRIBUTE.finditer(opening)


def _unquoted(value: str) -> str:
    return value[1:-1] if value[0] in "\"'" else value


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
