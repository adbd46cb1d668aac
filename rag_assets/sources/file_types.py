"""The types of files that are documents: which reader belongs to which suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rag_assets.code_versions.closure import Root
from rag_assets.sources.file_document import FileDocument
from rag_assets.sources.html_document import read_html
from rag_assets.sources.markdown_document import read_markdown
from rag_assets.sources.pdf_document import read_pdf
from rag_assets.text_files import GZIP, suffix

READERS: dict[str, Callable[[Path], FileDocument]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
}
"""A reader for each suffix, in lower case. A new type of file is added here."""

_PACKAGES = {".html": "selectolax", ".htm": "selectolax", ".pdf": "pypdfium2"}

UNREAD = frozenset(
    {".adoc", ".doc", ".docx", ".epub", ".ipynb", ".mdx", ".odt", ".org", ".pptx", ".rst"}
    | {".rtf", ".tex", ".xhtml"}
)
"""Suffixes of what people would call a document and no reader is for: such files are noted."""


def is_read(path: Path) -> bool:
    """Return whether there is a reader for a file: text may be compressed, a PDF may not."""
    return suffix(path) in READERS and not path.name.lower().endswith(f".pdf{GZIP}")


def read_file(path: Path) -> FileDocument:
    """Return the document of a file.

    Raises:
        DataError: it cannot be read, is damaged, or its reader is not installed.
    """
    return READERS[suffix(path)](path)


def reader_code(files: Iterable[Path]) -> list[Root]:
    """Return the roots of the code that reads ``files``."""
    suffixes = {suffix(path) for path in files} & READERS.keys()
    return [f"{__name__}:READERS[{name}]" for name in ("", *sorted(suffixes))]


def engine_versions(files: Iterable[Path]) -> dict[str, str]:
    """Return the versions of the packages that read ``files``: the text depends on them too."""
    packages = {_PACKAGES.get(suffix(path)) for path in files}
    return {package: _version(package) for package in sorted(filter(None, packages))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
