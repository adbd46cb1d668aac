"""Strategy ``markdown``: one chunk a section, with the headings above it.

A section that is too long is cut further by semantic-text-splitter's Markdown splitter, which keeps
tables, lists, fenced code and paragraphs whole where they fit.

Sections are found by a CommonMark parser rather than by a pattern. So a ``#`` in fenced code, in an
HTML block or in a list is no heading, and an underlined line is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from rag_assets.chunking.chunker import (
    Cutter,
    EmbedBy,
    Overlap,
    Piece,
    SizedChunking,
    split_pieces,
    splitter_cutter,
)
from rag_assets.models.model_names import load_tokenizer

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from semantic_text_splitter import MarkdownSplitter

_LINE_END = re.compile(r"\r\n?|\n")


class MarkdownChunking(SizedChunking):
    """One chunk per section of a Markdown text; sections that are too long are cut further.

    A heading deeper than ``max_level`` does not begin a section. ``overlap`` applies only within
    a section. ``indexed`` sets whether the headings above a chunk are indexed with it.
    """

    libraries: ClassVar[tuple[str, ...]] = ("markdown-it-py", "semantic-text-splitter")

    strategy: Literal["markdown"]
    overlap: Overlap = 0
    max_level: int = Field(6, ge=1, le=6, strict=True)
    indexed: Literal["title+heading+text", "title+text"] = "title+heading+text"

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts by heading, and a section that is too long further."""
        cut_section: list[Cutter] = []

        def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
            if not cut_section:  # it takes longer to make than a document takes to cut
                cut_section.append(splitter_cutter(self._splitter()))
            by_text = [sections(text, self.max_level) for text in texts]
            return split_pieces(texts, by_text, cut_section[0])

        return cut

    def _splitter(self) -> MarkdownSplitter:
        """Return what keeps Markdown blocks whole where they fit: tables, lists, fenced code."""
        from semantic_text_splitter import MarkdownSplitter

        if self.max_tokens is None:
            return MarkdownSplitter(self.capacity, self.overlap)
        tokenizer = load_tokenizer(self.tokenizer)
        return MarkdownSplitter.from_huggingface_tokenizer(tokenizer, self.capacity, self.overlap)


class Heading(NamedTuple):
    """A heading: where its first line begins, where the line after it does, and what it says."""

    start: int
    end: int
    level: int
    title: str


def sections(text: str, max_level: int) -> list[Piece]:
    """Cut a text before every heading of at most ``max_level``.

    A section that is nothing but a heading joins the subsection that follows. Headings inside
    quotes and lists begin no section.

    Returns:
        Pieces that hold the whole text, each with the titles of the headings above it and its own.
    """
    starts = [heading for heading in headings(text) if heading.level <= max_level]
    above: list[Heading] = []
    pieces: list[Piece] = []
    start = 0
    for heading, following in zip_longest([None, *starts], starts):
        if heading is not None:
            above = [*(each for each in above if each.level < heading.level), heading]
        end = following.start if following is not None else len(text)
        if end > start and not _only_heading(text, heading, following):
            titles = tuple(each.title for each in above if each.title)
            pieces.append(Piece(start, end, titles))
            start = end
    return pieces


def headings(text: str) -> Iterator[Heading]:
    """Give the headings of a text that stand in no quote and no list, in order."""
    env: dict[str, Any] = {}
    tokens = _block_parser().parse(text, env)
    lines = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            first, after = token.map
            title = _plain(_inline_parser().parseInline(inline.content, env))
            yield Heading(lines[first], lines[min(after, len(lines) - 1)], int(token.tag[1]), title)


def _only_heading(text: str, heading: Heading | None, following: Heading | None) -> bool:
    if heading is None or following is None or following.level <= heading.level:
        return False
    return not text[heading.end : following.start].strip()


@cache
def _block_parser() -> MarkdownIt:
    """Return a parser that leaves the text inside blocks alone: it takes most of the time."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])


@cache
def _inline_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


def _plain(tokens: list[Token]) -> str:
    """Return the words of a heading, without marks of emphasis, links and line breaks."""
    words = []
    for token in tokens:
        words += [_plain(token.children)] if token.children else [token.content or " "]
    return " ".join("".join(words).split())
