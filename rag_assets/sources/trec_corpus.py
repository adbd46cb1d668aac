"""Documents of a TREC folder: JSON lines, lines of columns, or files of ``<DOC>`` blocks.

Blocks of TREC's SGML files, which topics are in too, are read one at a time. The files are no XML:
elements may stay open, and a bare ``&`` or ``<`` is text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.fields import DocumentFields, Place, Row, checked_id, shown
from rag_assets.sources.lines import decoded, read_lines, read_raw_lines
from rag_assets.sources.problems import parse_each
from rag_assets.sources.strict_json import parse_object
from rag_assets.store.canonical import canonical_json
from rag_assets.text_files import suffix

_ID_KEYS = ("_id", "id", "docno", "doc_id")
_TEXT_KEYS = ("text", "contents")
_TITLE_TAGS = ("title", "headline", "head", "hl", "ti", "ttl")
_NUMBER_TAG = "docno"
_TEXT_TAG = "text"
_LINES = (".jsonl", ".tsv")
_EXPECTED = "a TREC corpus: <DOC> blocks, or JSON lines in a file .jsonl"


class TrecDocument(NamedTuple):
    """One document: its place, the key of its id, and the columns of the documents table."""

    place: Place
    key: str
    document_id: str
    title: str
    text: str
    metadata: str


def read_corpus_file(path: Path) -> Iterator[TrecDocument]:
    """Yield every document of a file; its name says which kind it is, with ``.gz`` or without.

    Lines of ``.jsonl`` hold an id (``_id``, ``id``, ``docno``, ``doc_id``), ``text`` or
    ``contents``, and if wanted ``title``. Lines of ``.tsv`` hold ``id<TAB>text``, as MS MARCO's
    ``collection.tsv``, or ``id<TAB>text<TAB>title``. Every other file holds ``<DOC>`` blocks with
    ``<DOCNO>``.
    The text is that of all ``<TEXT>`` elements, or where there is none all that is not the title;
    the title is the first of ``<TITLE>``, ``<HEADLINE>``, ``<HEAD>``, ``<HL>``, ``<TI>``,
    ``<TTL>``. What is neither becomes metadata.

    Raises:
        DataError: a line or block breaks the format or has no id.
    """
    return parse_each(lambda record: parsed_document(*record), raw_documents(path))


def raw_documents(path: Path) -> Iterator[tuple[Place, bytes]]:
    """Yield place and bytes of every document of a file, as :func:`parsed_document` takes them."""
    if suffix(path) in _LINES:
        return ((Place(path, line), raw) for line, raw in read_raw_lines(path))
    blocks = read_blocks(path, "DOC", _EXPECTED)
    return ((Place(path, line), block.encode()) for line, _, block in blocks)


def parsed_document(place: Place, record: bytes) -> TrecDocument:
    """Return a document.

    Raises:
        DataError: it breaks the format or has no id.
    """
    kind, line = suffix(place.file), place.line or 0
    if kind == ".jsonl":
        return _line_document(parse_object(record, place.file, line), place)
    if kind == ".tsv":
        text = decoded(record, place.file, line).rstrip("\r\n")
        return _column_document(text.split("\t"), place)
    return _block_document(record.decode(), place)


def _line_document(row: Row, place: Place) -> TrecDocument:
    key, text_key = _first(row, _ID_KEYS), _first(row, _TEXT_KEYS)
    return TrecDocument(place, key, *DocumentFields((key,), text=text_key).read(row, place))


def _column_document(columns: list[str], place: Place) -> TrecDocument:
    if len(columns) not in (2, 3):
        forms = "id<TAB>text or id<TAB>text<TAB>title"
        raise place.error(f"found {len(columns)} columns, separated by tabs; must be {forms}")
    document_id = checked_id(columns[0].strip(), place, "id")
    title = columns[2].strip() if len(columns) == 3 else ""
    return TrecDocument(place, "id", document_id, title, columns[1], "{}")


def _first(row: Row, keys: tuple[str, ...]) -> str:
    return next((key for key in keys if key in row), keys[0])


def _block_document(block: str, place: Place) -> TrecDocument:
    parts, between = elements(block)
    document_id = _number(parts, place)
    title = next((e for tag in _TITLE_TAGS for e in parts if e.name == tag), None)
    rest = [e for e in parts if e is not title and e.name != _NUMBER_TAG]
    texts = [plain_text(e.content) for e in rest if e.name == _TEXT_TAG]
    text, metadata = "\n".join(texts), _metadata(rest)
    if not texts:
        text, metadata = _all_text(rest, between), "{}"
    folded = " ".join(plain_text(title.content).split()) if title is not None else ""
    return TrecDocument(place, "DOCNO", document_id, folded, text, metadata)


def _number(parts: list[Element], place: Place) -> str:
    numbers = [e.content.strip() for e in parts if e.name == _NUMBER_TAG]
    if len(numbers) != 1:
        problem = "occurs twice in one <DOC>" if numbers else "is missing in this <DOC>"
        raise place.error(problem, "DOCNO")
    return checked_id(numbers[0], place, "DOCNO")


def _all_text(rest: list[Element], between: str) -> str:
    texts = [plain_text(content) for content in (between, *(e.content for e in rest))]
    return "\n".join(text for text in texts if text)


def _metadata(rest: list[Element]) -> str:
    fields: dict[str, list[str]] = {}
    for element in rest:
        if element.name != _TEXT_TAG:
            fields.setdefault(element.name, []).append(plain_text(element.content))
    return canonical_json({name: v[0] if len(v) == 1 else v for name, v in fields.items()})


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
