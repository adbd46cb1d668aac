"""One Markdown, text, HTML or PDF file as a document: title, text and metadata.

YAML front matter of Markdown is the block between two ``---`` lines at the very top. Only what JSON
can say is understood (text, numbers, true, false, null, lists, mappings), with the scalars of YAML
1.2: a date stays text, ``no`` stays text, a quoted value is always text.

pypdfium2 reads PDF: it is the engine of a browser (BSD and Apache licences) in one wheel, and every
damage ends in one kind of error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from rag_assets.code_versions.closure import Root
from rag_assets.errors import DataError
from rag_assets.input_files import suffix
from rag_assets.sources.fields import Place
from rag_assets.sources.row_files import read_text, unreadable
from rag_assets.store.canonical import canonical_json

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

FENCE = "---"
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_HEADING = re.compile(r"# +(\S.*)(?:\n|\Z)")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")

PAGE_BREAK = "\n\n"
_PDF_FIELDS = ("Author", "Subject", "Keywords", "CreationDate")
# How the engine writes a hyphen that only breaks a line, and what no text file should hold.
_LINE_HYPHEN = re.compile("[\x02\ufffe]")
_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")


class FileDocument(NamedTuple):
    """One document; ``metadata`` is canonical JSON, a remark says what was lost or repaired.

    A remark continues the words "1 file " or "3 files ", as ``with pages without text``.
    """

    title: str
    text: str
    metadata: str = "{}"
    remarks: tuple[str, ...] = ()


def read_markdown(path: Path) -> FileDocument:
    """Return the document of a Markdown or text file.

    The title is the front matter's ``title``, or else the first line that is not blank when it is
    a ``# `` heading; that line then leaves the text. The text starts at its first line that is
    not blank and is otherwise kept to the character, with line feeds as line ends.
    """
    fields, text = _split_front_matter(read_text(path), Place(path))
    declared = fields.pop("title", None)
    if isinstance(declared, list | dict | bool):
        raise Place(path).wrong(declared, "text, in quotes if need be", "title")
    title = str("" if declared is None else declared).strip()
    text = _without_leading_blank_lines(text)
    heading = _HEADING.match(text)
    if not title and heading is not None:
        title = _without_closing_marks(heading.group(1))
        text = _without_leading_blank_lines(text[heading.end() :])
    return FileDocument(title, text, canonical_json(fields))


def _without_closing_marks(heading: str) -> str:
    """Return a heading without blanks, and ``#`` behind blanks, at its end."""
    text = heading.rstrip(" ")
    bare = text.rstrip("#")
    return bare.rstrip(" ") if bare != text and bare.endswith(" ") else text


def _without_leading_blank_lines(text: str) -> str:
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text


def _split_front_matter(text: str, place: Place) -> tuple[dict[str, object], str]:
    """Return the front matter and the rest of a document.

    There is none without a ``---`` on the first line and a second one, or with nothing but plain
    text between them (then the lines are rules of the document itself).
    """
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if line.rstrip() == FENCE][:2]
    if len(fences) < 2 or fences[0] != 0:
        return {}, text
    node = _compose("\n".join(lines[1 : fences[1]]), place)
    rest = "\n".join(lines[fences[1] + 1 :])
    if node is None:
        return {}, rest
    if isinstance(node, yaml.ScalarNode):
        return {}, text
    fields = _value(node, place, set())
    if not isinstance(fields, dict):
        raise place._replace(line=2).error("front matter must be `key: value` lines")
    return fields, rest


def _compose(block: str, place: Place) -> yaml.Node | None:
    try:
        return yaml.compose(block, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark is not None else None
        problem = f"invalid front matter: {error.problem or error.context}"
        raise place._replace(line=line).error(problem) from error
    except yaml.reader.ReaderError as error:
        line = block.count("\n", 0, error.position) + 2
        problem = f"invalid front matter: character U+{error.character:04X} is not allowed in YAML"
        raise place._replace(line=line).error(problem) from error
    except RecursionError as error:
        raise place.error("front matter nested too deep") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise place.error(f"invalid front matter: {error}") from error


def _value(node: yaml.Node, top: Place, seen: set[int]) -> object:
    place = top._replace(line=node.start_mark.line + 2)
    if id(node) in seen:
        raise place.error("front matter with an alias (*name) of this value; write it out")
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, place)
    if not isinstance(node, yaml.MappingNode):
        return [_value(item, top, seen) for item in node.value]
    fields: dict[str, object] = {}
    for key, value in node.value:
        place = top._replace(line=key.start_mark.line + 2)
        if not isinstance(key, yaml.ScalarNode):
            raise place.error("front matter keys must be text")
        name = _text(key, place)
        if name in fields:
            raise place.error(f"front matter has the key {name!a} twice")
        fields[name] = _value(value, top, seen)
    return fields


def _scalar(node: yaml.ScalarNode, place: Place) -> object:
    text = _text(node, place)
    if node.style is not None:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def _text(node: yaml.ScalarNode, place: Place) -> str:
    text = str(node.value)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise place.error("front matter with a lone surrogate, half of a character")
    return text


def read_pdf(path: Path) -> FileDocument:
    """Return the document of a PDF file.

    The text is that of all pages, in the engine's reading order, with a blank line between pages;
    ``page_starts`` in the metadata has the character at which each page starts. The title is the
    file's own title, which may be empty. Pages without text, such as scans, are remarked on.
    """
    try:
        import pypdfium2
    except ImportError as error:
        raise needs_package(path) from error
    try:
        with pypdfium2.PdfDocument(path.read_bytes()) as document:
            fields = document.get_metadata_dict(skip_empty=True)
            pages = [_page_text(document, number) for number in range(len(document))]
    except OSError as error:
        raise unreadable(path, error) from error
    except pypdfium2.PdfiumError as error:
        raise DataError(f"cannot be read as PDF: {str(error).rstrip('.')}", file=path) from error
    return _pdf_document(fields, pages)


def _page_text(document: PdfDocument, number: int) -> str:
    page = document[number]
    text_page = page.get_textpage()
    try:
        text = str(text_page.get_text_bounded())
    finally:
        text_page.close()
        page.close()
    return _LINE_HYPHEN.sub("-", text).replace("\r\n", "\n").replace("\r", "\n").strip("\n")


def _pdf_document(fields: dict[str, str], pages: Sequence[str]) -> FileDocument:
    printable = [_UNPRINTABLE.sub("", page) for page in pages]
    starts = []
    position = 0
    for page in printable:
        starts.append(position)
        position += len(page) + len(PAGE_BREAK)
    metadata: dict[str, Any] = {
        name.lower(): _UNPRINTABLE.sub("", fields[name]) for name in _PDF_FIELDS if fields.get(name)
    }
    title = " ".join(_UNPRINTABLE.sub("", fields.get("Title", "")).split())
    metadata["page_starts"] = starts
    remarks = []
    if not all(page.strip() for page in printable):
        remarks.append("with pages without text (scans?)")
    if printable != pages:
        remarks.append("with characters that are no text, left out")
    return FileDocument(title, PAGE_BREAK.join(printable), canonical_json(metadata), (*remarks,))


def _read_html(path: Path) -> FileDocument:
    from rag_assets.sources.html_document import read_html

    try:
        title, text, metadata = read_html(path)
    except ImportError as error:
        raise needs_package(path) from error
    return FileDocument(title, text, canonical_json(metadata))


READERS: dict[str, Callable[[Path], FileDocument]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_markdown,
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": read_pdf,
}
"""A reader for each suffix, in lower case. A new type of file is added here."""

_PACKAGES = {".html": "selectolax", ".htm": "selectolax", ".pdf": "pypdfium2"}


def needs_package(path: Path) -> DataError:
    """Return the error for a file whose reader is not installed."""
    problem = f"reading {suffix(path)} files needs the package {_PACKAGES[suffix(path)]}"
    return DataError(f"{problem}: pip install 'rag-assets[documents]'", file=path)


def read_file(path: Path) -> FileDocument:
    """Return the document of a file."""
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
