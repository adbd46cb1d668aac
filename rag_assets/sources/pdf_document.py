"""One PDF file as title, text and metadata, with the place where each page starts.

pypdfium2 reads: it is the engine of a browser (BSD and Apache licences) in one wheel, and every
damage ends in one kind of error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assets.errors import DataError
from rag_assets.sources.dataset import FileDocument, needs_package
from rag_assets.sources.lines import unreadable
from rag_assets.store.canonical import canonical_json

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

PAGE_BREAK = "\n\n"

_FIELDS = ("Author", "Subject", "Keywords", "CreationDate")
# How the engine writes a hyphen that only breaks a line, and what no text file should hold.
_LINE_HYPHEN = re.compile("[\x02\ufffe]")
_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")


def read_pdf(path: Path) -> FileDocument:
    """Return the document of a file.

    The text is that of all pages, in the engine's reading order, with a blank line between pages;
    ``page_starts`` in the metadata has the character at which each page starts. The title is the
    file's own title, which may be empty. Pages without text, such as scans, are remarked on.

    Raises:
        DataError: the file cannot be read, is no PDF, is damaged or locked, or pypdfium2 is not
            installed.
    """
    try:
        import pypdfium2
    except ImportError as error:
        raise needs_package(path, "pypdfium2") from error
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise _broken(path, error) from error
    try:
        fields = document.get_metadata_dict(skip_empty=True)
        pages = [_page_text(document, number) for number in range(len(document))]
    except pypdfium2.PdfiumError as error:
        raise _broken(path, error) from error
    finally:
        document.close()
    return _document(fields, pages)


def _page_text(document: PdfDocument, number: int) -> str:
    page = document[number]
    text_page = page.get_textpage()
    try:
        text = str(text_page.get_text_bounded())
    finally:
        text_page.close()
        page.close()
    text = _LINE_HYPHEN.sub("-", text).replace("\r\n", "\n").replace("\r", "\n")
    return text.strip("\n")


def _document(fields: dict[str, str], pages: Sequence[str]) -> FileDocument:
    printable = [_UNPRINTABLE.sub("", page) for page in pages]
    starts = []
    position = 0
    for page in printable:
        starts.append(position)
        position += len(page) + len(PAGE_BREAK)
    metadata: dict[str, Any] = {
        name.lower(): _UNPRINTABLE.sub("", fields[name]) for name in _FIELDS if fields.get(name)
    }
    title = " ".join(_UNPRINTABLE.sub("", fields.get("Title", "")).split())
    text = PAGE_BREAK.join(printable)
    metadata["page_starts"] = starts
    remarks = []
    if not all(page.strip() for page in printable):
        remarks.append("with pages without text (scans?)")
    if any(len(a) != len(b) for a, b in zip(pages, printable, strict=True)):
        remarks.append("with characters that are no text, left out")
    return FileDocument(title, text, canonical_json(metadata), tuple(remarks))


def _broken(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot be read as PDF: {str(error).rstrip('.')}", file=path)
