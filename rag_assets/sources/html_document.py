"""One HTML page as title, text and metadata.

selectolax parses as browsers do (HTML5), so that no markup is an error. All text that a browser
would show is kept, in order: a page is not cut down to its "main content", because evidence that a
heuristic threw away could never be found, and nobody would see why.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.errors import DataError
from rag_assets.sources.file_document import FileDocument, needs_package
from rag_assets.sources.html_text import visible_text
from rag_assets.store.canonical import canonical_json
from rag_assets.text_files import read_bytes

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.I)
_DECLARED_WITHIN = 1_024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = frozenset({"author", "date", "description", "keywords"})


def read_html(path: Path) -> FileDocument:
    """Return the document of a page.

    The title is ``<title>``, or else the first ``<h1>``. The text has a line for each block and a
    blank line around headings, which keep their level as ``#`` marks. Metadata: the language and
    the ``<meta>`` fields author, date, description and keywords. The encoding is that of the byte
    order mark, or else the declared one, or else UTF-8.

    Raises:
        DataError: the file cannot be read, its encoding is unknown or broken, or selectolax is
            not installed.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise needs_package(path, "selectolax") from error
    page = LexborHTMLParser(_decoded(read_bytes(path), path))
    title = _words(page, "title") or _words(page, "h1")
    text = visible_text(page.body) if page.body is not None else ""
    return FileDocument(title, text, canonical_json(_metadata(page)))


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
    found: dict[str, str] = {}
    for node in page.css("meta[name][content]"):
        name = (node.attributes.get("name") or "").lower()
        content = node.attributes.get("content")
        if name in _META and content and name not in found:
            found[name] = content
    root = page.css_first("html")
    language = root.attributes.get("lang") if root is not None else None
    return {**found, "lang": language} if language else found
