"""What retrievers found for one question: rows for programs, and text with the words marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from rag_assets.plain_text import one_line
from rag_assets.retrieval.ask import Hit, RetrieverHits
from rag_assets.retrieval.lexical.analyzers import AUTO, analyze_all, resolve_analyzer
from rag_assets.sheets.notebook import Tabular
from rag_assets.sheets.sheet import TEXT, Column, Sheet

EXCERPT = 240
"""Characters of a passage that are shown."""

_WORD = re.compile(r"\w+")

# fmt: off
_ASKING = frozenset((
    "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "how",
    "i", "if", "in", "into", "is", "it", "its", "may", "me", "my", "of", "on", "or", "our", "she",
    "should", "so", "such", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who",
    "whom", "whose", "why", "will", "with", "would", "you", "your",
))
# fmt: on
"""English words that say nothing of what is asked; a search may still use them."""

OPENING, CLOSING = "\u00bb", "\u00ab"
"""Around a marked word where there are no styles: no mark of Markdown."""

Row = dict[str, Any]

Mark = tuple[int, int]
"""First character of a word of the question in a text, and the one behind it."""


def marks(text: str, question: str, analyzer: str) -> list[Mark]:
    """Return where words of the question stand in a text, by the analyzer: ``dogs`` marks ``dog``.

    Words that the analyzer drops (``the``), and those that only ask (``how do I``), are not marked.
    """
    spans = [word.span() for word in _WORD.finditer(text)]
    words_only = " ".join(w for w in _WORD.findall(question) if w.lower() not in _ASKING)
    sought_terms, *read = analyze_all(
        analyzer, [words_only or question, *(text[a:b] for a, b in spans)]
    )
    sought = set(sought_terms)
    return [span for span, terms in zip(spans, read, strict=True) if sought & set(terms)]


class Excerpt(NamedTuple):
    """A part of a passage, on one line, with the marked words in it."""

    text: str
    marks: list[Mark]


def excerpt(line: str, marked: Sequence[Mark], length: int = EXCERPT) -> Excerpt:
    """Return the part of a line with most marked words; of equal ones the first."""
    starts = [0, *(max(0, start - 20) for start, _ in marked)]

    def held(start: int) -> int:
        return sum(start <= a and b <= start + length for a, b in marked)

    start = max(starts, key=lambda start: (held(start), -start))
    if start := min(start, max(0, len(line) - length)):
        # A word is shown whole.
        start = next((word.start() for word in _WORD.finditer(line, start - 1)), start)
    end = min(start + length, len(line))
    before, after = "... " if start else "", " ..." if end < len(line) else ""
    shift = len(before) - start
    inside = [(a + shift, min(b, end) + shift) for a, b in marked if start <= a < end]
    return Excerpt(f"{before}{line[start:end].rstrip()}{after}", inside)


class QuestionHits(Tabular):
    """The first passages of all retrievers for one question.

    ``print`` and a notebook show them; ``rows()`` and ``to_arrow()`` are for programs.

    Attributes:
        question: what was asked.
        found: what each retriever returned, the cheapest retrievers first.
    """

    def __init__(self, question: str, found: Iterable[RetrieverHits] = ()) -> None:
        """Begin with some retrievers; others may be added."""
        self.question = question
        self.found: list[RetrieverHits] = []
        self._analyzer = ""
        self._numbers: dict[tuple[str, int, int], int] = {}
        for hits in found:
            self.add(hits)

    def add(self, found: RetrieverHits) -> None:
        """Add what a retriever returned."""
        self.found.append(found)
        for hit in found.hits:
            self._numbers.setdefault(_place(hit), len(self._numbers) + 1)
        texts = [hit.text for hits in self.found for hit in hits.hits]
        self._analyzer = resolve_analyzer(AUTO, texts)

    def rows(self) -> list[Row]:
        """Return one mapping a hit; ``passage`` is the same for the same passage."""
        return [
            {"retriever": hits.retriever, "passage": self._numbers[_place(hit)], **hit._asdict()}
            for hits in self.found
            for hit in hits.hits
        ]

    def to_arrow(self) -> pa.Table:
        """Return one row a hit: retriever, passage, rank, score, place and text."""
        return pa.Table.from_pylist(self.rows())

    def lines(self, found: RetrieverHits, *, styled: bool) -> Iterator[RenderableType]:
        """Yield what one retriever found; a passage that another one found before is named."""
        yield Text(f"{found.retriever}, {found.seconds:.1f} s", style="bold")
        if found.problem is not None:
            yield _indented(2, f"no answer: {one_line(found.problem)}")
        elif not found.hits:
            yield _indented(2, "nothing found")
        for hit in found.hits:
            title = f"  {one_line(hit.title)}" if hit.title else ""
            yield _indented(2, f"{hit.rank} {self._label(hit)}{title}")
            if self._first(hit) is found:
                yield _indented(6, _marked(self._excerpt(hit), styled=styled))

    def side_by_side(self, *, has_text: bool = False) -> Sheet:
        """Return the table of passages and the rank that each retriever gives them."""
        ranks: dict[str, Row] = {}
        for hits in self.found:
            for hit in hits.hits:
                text = self._excerpt(hit).text
                row = ranks.setdefault(self._label(hit), {"place": self._label(hit), "text": text})
                row[f"rank {hits.retriever}"] = hit.rank
        answered = [hits.retriever for hits in self.found if hits.problem is None]
        columns = (
            Column("place", "passage", TEXT),
            *([Column("text", "text", TEXT)] if has_text else []),
            *(Column(f"rank {name}", name, "d", missing="") for name in answered),
        )
        problems = [f"{hits.retriever}: {hits.problem}" for hits in self.found if hits.problem]
        return Sheet(self.question, columns, list(ranks.values()), problems)

    def _sheets(self) -> list[Sheet]:
        return [self.side_by_side(has_text=True)]

    def _first(self, hit: Hit) -> RetrieverHits:
        place = _place(hit)
        return next(hits for hits in self.found if any(_place(each) == place for each in hits.hits))

    def _excerpt(self, hit: Hit) -> Excerpt:
        line = " ".join(hit.text.split())
        return excerpt(line, marks(line, self.question, self._analyzer))

    def _label(self, hit: Hit) -> str:
        return f"[{self._numbers[_place(hit)]}] {one_line(hit.document_id)} {hit.start}-{hit.end}"


def _indented(depth: int, text: str | Text) -> RenderableType:
    """Return a text with its indent also where it is folded."""
    return Padding(Text(text) if isinstance(text, str) else text, (0, 0, 0, depth))


def _place(hit: Hit) -> tuple[str, int, int]:
    return hit.document_id, hit.start, hit.end


def _marked(passage: Excerpt, *, styled: bool) -> Text:
    if styled:
        text = Text(passage.text)
        for start, end in passage.marks:
            text.stylize("bold yellow", start, end)
        return text
    pieces: list[str] = []
    last = 0
    for start, end in passage.marks:
        pieces += [passage.text[last:start], OPENING + passage.text[start:end] + CLOSING]
        last = end
    return Text("".join([*pieces, passage.text[last:]]))
