"""One Markdown or text file as title, text and metadata."""

from __future__ import annotations

import re
from pathlib import Path

from rag_assets.sources.file_document import FileDocument
from rag_assets.sources.front_matter import FrontMatterError, split_front_matter
from rag_assets.sources.lines import read_text
from rag_assets.sources.problems import RowError
from rag_assets.sources.strict_json import type_name
from rag_assets.store.canonical import canonical_json

_HEADING = re.compile(r"# +(\S.*)(?:\n|\Z)")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")


def read_markdown(path: Path) -> FileDocument:
    """Return the document of a file.

    The title is the front matter's ``title``, or else the first line that is not blank when it is
    a ``# `` heading; that line then leaves the text. The text starts at its first line that is
    not blank and is otherwise kept to the character, with line feeds as line ends.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or its front matter is not valid.
    """
    try:
        fields, text = split_front_matter(read_text(path))
    except FrontMatterError as error:
        raise RowError(error.problem, file=path, line=error.line) from error
    fields = dict(fields or {})
    title = _declared_title(fields.pop("title", None), path)
    text = _without_leading_blank_lines(text)
    if not title:
        heading = _HEADING.match(text)
        if heading is not None:
            title = _without_closing_marks(heading.group(1))
            text = _without_leading_blank_lines(text[heading.end() :])
    return FileDocument(title, text, canonical_json(fields))


def _declared_title(value: object, path: Path) -> str:
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    found = type_name(value)
    raise RowError(f"is {found}; must be text, in quotes if need be", file=path, key="title")


def _without_closing_marks(heading: str) -> str:
    """Return a heading without blanks, and ``#`` behind blanks, at its end."""
    text = heading.rstrip(" ")
    bare = text.rstrip("#")
    return bare.rstrip(" ") if bare != text and bare.endswith(" ") else text


def _without_leading_blank_lines(text: str) -> str:
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text
