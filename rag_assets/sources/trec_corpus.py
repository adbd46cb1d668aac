"""Documents of a TREC folder: JSON lines, lines of columns, or files of ``<DOC>`` blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.fields import (
    Place,
    Row,
    checked_id,
    identifier,
    metadata_json,
    optional_string,
    string,
)
from rag_assets.sources.jsonl import parsed_objects
from rag_assets.sources.lines import decoded, read_raw_lines
from rag_assets.sources.problems import tolerated
from rag_assets.sources.tagged_blocks import Element, elements, plain_text, read_blocks
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
    for place, record in raw_documents(path):
        document = None
        with tolerated():
            document = parsed_document(place, record)
        if document is not None:
            yield document


def raw_documents(path: Path) -> Iterator[tuple[Place, bytes]]:
    """Yield place and bytes of every document of a file, as :func:`parsed_document` takes them."""
    if suffix(path) in _LINES:
        return ((Place(path, line), raw) for line, raw in read_raw_lines(path))
    blocks = read_blocks(path, "DOC", _EXPECTED)
    return ((Place(path, line), block.encode()) for line, _, block in blocks)


def parsed_document(place: Place, record: bytes) -> TrecDocument | None:
    """Return a document; None where a problem of it is collected.

    Raises:
        DataError: it breaks the format or has no id.
    """
    kind, line = suffix(place.file), place.line or 0
    if kind == ".jsonl":
        objects = parsed_objects(place.file, [(line, record)])
        return next((_line_document(row, place) for _, row in objects), None)
    if kind == ".tsv":
        text = decoded(record, place.file, line).rstrip("\r\n")
        return _column_document(text.split("\t"), place)
    return _block_document(record.decode(), place)


def _line_document(row: Row, place: Place) -> TrecDocument:
    key, text_key = _first(row, _ID_KEYS), _first(row, _TEXT_KEYS)
    document_id = identifier(row, key, place)
    text = string(row, text_key, place)
    title = optional_string(row, "title", place) or ""
    metadata = metadata_json(row, frozenset({key, text_key, "title"}))
    return TrecDocument(place, key, document_id, title, text, metadata)


def _column_document(columns: list[str], place: Place) -> TrecDocument:
    if len(columns) not in (2, 3):
        forms = "id<TAB>text or id<TAB>text<TAB>title"
        raise place.error(f"found {len(columns)} columns, parted by tabs; must be {forms}")
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
