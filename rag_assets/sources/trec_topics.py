"""Topics of TREC: a line a query, classic ``<top>`` blocks, or XML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from rag_assets.sources.fields import Place, checked_id
from rag_assets.sources.lines import read_lines
from rag_assets.sources.problems import tolerated
from rag_assets.sources.tagged_blocks import TAG, read_blocks
from rag_assets.sources.topic import Topic
from rag_assets.sources.trec_xml_topics import TAGS, read_xml_topics
from rag_assets.store.canonical import canonical_json

_LABELS = {"num": "number", "title": "topic", "desc": "description", "narr": "narrative"}
_FIRST_TAG = re.compile(rf"<(top|{'|'.join(TAGS)})(?:\s[^<>]*)?>", re.IGNORECASE)
_LANGUAGE = re.compile(r"^[a-z]{2}-(?=(?:num|title|desc|narr)$)")
_TEXT_FIELDS = ("title", "desc")


def read_topics(path: Path) -> Iterator[Topic]:
    """Yield every topic of a file.

    A file that begins with a tag holds ``<top>`` blocks: the text of a query is its ``<title>``,
    or its ``<desc>`` where there is no title; other fields are metadata. Names may have a language
    before them, as CLEF's ``<EN-title>``. Where ``<topic>`` or ``<query>`` comes first it is XML,
    as :mod:`rag_assets.sources.trec_xml_topics` reads. Any other file has a line
    a query: ``id<TAB>text``, or without a tab the id up to the first blank.

    Raises:
        DataError: a line has no text, a block has no number or no text, or is not closed.
    """
    first = next((line for _, line in read_lines(path)), "")
    if not first.lstrip().startswith("<"):
        return _read_plain(path)
    tag = _first_tag(path)
    return read_xml_topics(path, tag) if tag in TAGS else _read_blocks(path)


def _first_tag(path: Path) -> str:
    found = (_FIRST_TAG.search(line) for _, line in read_lines(path))
    return next((match.group(1).lower() for match in found if match), "")


def _read_plain(path: Path) -> Iterator[Topic]:
    for number, line in read_lines(path):
        topic = None
        with tolerated():
            topic = _plain_topic(line, Place(path, number))
        if topic is not None:
            yield topic


def _plain_topic(line: str, place: Place) -> Topic:
    name, tab, text = line.partition("\t")
    if not tab:
        name, blank, text = line.strip().partition(" ")
        if not blank:
            raise place.error("found no text; must be 'id<TAB>text' or 'id text'")
        text = text.lstrip()
    return Topic(place, checked_id(name.strip(), place, "id"), text, "{}")


def _read_blocks(path: Path) -> Iterator[Topic]:
    for line, _, block in read_blocks(path, "top"):
        topic = None
        with tolerated():
            topic = _block_topic(block, Place(path, line))
        if topic is not None:
            yield topic


def _block_topic(block: str, place: Place) -> Topic:
    fields = _fields(block, place)
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
        fields[name] = _text(name, block[tag.end() : end])
    return fields


def _text(name: str, content: str) -> str:
    text = " ".join(html.unescape(content).split())
    label = _LABELS.get(name)
    return re.sub(rf"^{label}\s*:\s*", "", text, flags=re.IGNORECASE) if label else text
