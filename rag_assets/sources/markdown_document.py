"""One Markdown or text file as title, text and metadata.

YAML front matter is the block between two ``---`` lines at the very top. Only what JSON can say is
understood (text, numbers, true, false, null, lists, mappings), with the scalars of YAML 1.2: a date
stays text, ``no`` stays text, a quoted value is always text.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import yaml

from rag_assets.sources.dataset import FileDocument
from rag_assets.sources.lines import read_text
from rag_assets.sources.problems import RowError
from rag_assets.sources.strict_json import type_name
from rag_assets.store.canonical import canonical_json

FENCE = "---"
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
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
    kind = type_name(value)
    raise RowError(f"is {kind}; must be text, in quotes if need be", file=path, key="title")


def _without_closing_marks(heading: str) -> str:
    """Return a heading without blanks, and ``#`` behind blanks, at its end."""
    text = heading.rstrip(" ")
    bare = text.rstrip("#")
    return bare.rstrip(" ") if bare != text and bare.endswith(" ") else text


def _without_leading_blank_lines(text: str) -> str:
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text


class FrontMatterError(ValueError):
    """Front matter is no YAML mapping that JSON can hold; ``line`` counts from the file's top."""

    def __init__(self, problem: str, line: int | None) -> None:
        """State the problem, and its line when that is known."""
        super().__init__(problem)
        self.problem = problem
        self.line = line


def split_front_matter(text: str) -> tuple[dict[str, object] | None, str]:
    """Return the front matter and the rest of a document.

    The front matter is None when there is none: no ``---`` on the first line, no second one, or
    nothing but plain text between them (then the lines are rules of the document itself).

    Raises:
        FrontMatterError: the block is not valid YAML, or not a mapping.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        return None, text
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        return None, text
    node = _compose("\n".join(lines[1:end]))
    rest = "\n".join(lines[end + 1 :])
    if node is None:
        return {}, rest
    if isinstance(node, yaml.ScalarNode):
        return None, text
    if not isinstance(node, yaml.MappingNode):
        raise FrontMatterError("front matter must be `key: value` lines", 2)
    return _mapping(node, set()), rest


def _compose(block: str) -> yaml.Node | None:
    try:
        return yaml.compose(block, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark is not None else None
        raise FrontMatterError(
            f"invalid front matter: {error.problem or error.context}", line
        ) from error
    except yaml.reader.ReaderError as error:
        line = block.count("\n", 0, error.position) + 2
        problem = f"invalid front matter: character U+{error.character:04X} is not allowed in YAML"
        raise FrontMatterError(problem, line) from error
    except RecursionError as error:
        raise FrontMatterError("front matter nested too deep", None) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise FrontMatterError(f"invalid front matter: {error}", None) from error


def _value(node: yaml.Node, seen: set[int]) -> object:
    if id(node) in seen:
        problem = "front matter with an alias (*name) of this value; write it out"
        raise FrontMatterError(problem, node.start_mark.line + 2)
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, seen)
    return [_value(item, seen) for item in node.value]


def _mapping(node: yaml.MappingNode, seen: set[int]) -> dict[str, object]:
    fields: dict[str, object] = {}
    seen.add(id(node))
    for key, value in node.value:
        line = key.start_mark.line + 2
        if not isinstance(key, yaml.ScalarNode):
            raise FrontMatterError("front matter keys must be text", line)
        name = _text(key)
        if name in fields:
            raise FrontMatterError(f"front matter has the key {name!a} twice", line)
        fields[name] = _value(value, seen)
    return fields


def _scalar(node: yaml.ScalarNode) -> object:
    text = _text(node)
    if node.style is not None:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def _text(node: yaml.ScalarNode) -> str:
    text = str(node.value)
    if any("\ud800" <= character <= "\udfff" for character in text):
        line = node.start_mark.line + 2
        raise FrontMatterError("front matter with a lone surrogate, half of a character", line)
    return text
