"""What retrievers found for one question: rows for programs, and text with the words marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from rag_assets.plain_text import one_line
from rag_assets.report.notebook import table_html
from rag_assets.report.sheet import TEXT, Column, Sheet
from rag_assets.retrieval.ask import Hit, RetrieverHits
from rag_assets.retrieval.lexical.analyzers import AUTO, analyze_all, resolve_analyzer

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
    spans = [found.span() for found in _WORD.finditer(text)]
    words_only = " ".join(w for w in _WORD.findall(question) if w.lower() not in _ASKING)
    asked, *read = analyze_all(analyzer, [words_only or question, *(text[a:b] for a, b in spans)])
    sought = set(asked)
    return [span for span, terms in zip(spans, read, strict=True) if sought & set(terms)]


class Excerpt(NamedTuple):
    """A part of a passage, on one line, with the marked words in it."""

    text: str
    marks: list[Mark]


def excerpt(text: str, marked: Sequence[Mark], length: int = EXCERPT) -> Excerpt:
    """Return the part with most marked words; of equal ones the first."""
    starts = [0, *(max(0, start - 20) for start, _ in marked)]

    def held(start: int) -> int:
        return sum(start <= a and b <= start + length for a, b in marked)

    start = max(starts, key=lambda one: (held(one), -one))
    start = min(start, max(0, len(text) - length))
    if start:
        # A word is shown whole.
        start = next((found.start() for found in _WORD.finditer(text, start - 1)), start)
    pieces: list[str] = []
    moved: list[Mark] = []
    position = 0
    for found in re.finditer(r"\S+", text[start : start + length]):
        a, b = start + found.start(), start + found.end()
        position += 1 if pieces else 0
        moved += [
            (position + max(m, a) - a, position + min(n, b) - a)
            for m, n in marked
            if m < b and n > a
        ]
        pieces.append(found[0])
        position += b - a
    before = "... " if start else ""
    after = " ..." if start + length < len(text.rstrip()) else ""
    shift = len(before)
    return Excerpt(before + " ".join(pieces) + after, [(m + shift, n + shift) for m, n in moved])


class QuestionHits:
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
        for one in found:
            self.add(one)

    def add(self, found: RetrieverHits) -> None:
        """Add what a retriever returned."""
        self.found.append(found)
        for hit in found.hits:
            self._numbers.setdefault(_place(hit), len(self._numbers) + 1)
        texts = [hit.text for one in self.found for hit in one.hits]
        self._analyzer = resolve_analyzer(AUTO, texts)

    def rows(self) -> list[Row]:
        """Return one mapping a hit; ``passage`` is the same for the same passage."""
        return [
            {
                "retriever": one.retriever,
                "passage": self._numbers[_place(hit)],
                **hit._asdict(),
                "marks": self._marks(hit),
            }
            for one in self.found
            for hit in one.hits
        ]

    def flat_rows(self) -> list[Row]:
        """Return the same without marks: for CSV and Markdown."""
        return [{name: row[name] for name in row if name != "marks"} for row in self.rows()]

    def to_arrow(self) -> pa.Table:
        """Return one row a hit: retriever, passage, rank, score, place and text."""
        return pa.Table.from_pylist(self.flat_rows())

    def __repr__(self) -> str:
        """Return what ``rag-assets ask`` prints."""
        lines = [self.question]
        for one in self.found:
            shown = self.lines(one, styled=False)
            lines += ["", *(" " * line.indent + line.text.plain for line in shown)]
        return "\n".join([*lines, "", *self._side_by_side_text()])

    def lines(self, found: RetrieverHits, *, styled: bool) -> Iterator[_Line]:
        """Yield what one retriever found; a passage that another one found before is named."""
        yield _Line(0, Text(f"{found.retriever}, {found.seconds:.1f} s", style="bold"))
        if found.problem is not None:
            yield _Line(2, Text(f"no answer: {one_line(found.problem)}"))
        elif not found.hits:
            yield _Line(2, Text("nothing found"))
        for hit in found.hits:
            title = f"  {one_line(hit.title)}" if hit.title else ""
            yield _Line(2, Text(f"{hit.rank} {self._named(hit)}{title}"))
            if self._first(hit) is found:
                yield _Line(6, _marked(excerpt(hit.text, self._marks(hit)), styled=styled))

    def side_by_side(self) -> Sheet:
        """Return the table of passages and the rank that each retriever gives them."""
        ranks: dict[str, Row] = {}
        for hits in self.found:
            for hit in hits.hits:
                text = excerpt(hit.text, self._marks(hit)).text
                row = ranks.setdefault(self._named(hit), {"place": self._named(hit), "text": text})
                row[f"rank {hits.retriever}"] = hit.rank
        columns = (
            Column("place", "passage", TEXT),
            *(Column(f"rank {name}", name, "d", missing="") for name in self._answered),
        )
        problems = [f"{one.retriever}: {one.problem}" for one in self.found if one.problem]
        return Sheet(self.question, columns, list(ranks.values()), problems)

    @property
    def _answered(self) -> list[str]:
        return [one.retriever for one in self.found if one.problem is None]

    def _first(self, hit: Hit) -> RetrieverHits:
        place = _place(hit)
        return next(one for one in self.found if any(_place(each) == place for each in one.hits))

    def _marks(self, hit: Hit) -> list[Mark]:
        return marks(hit.text, self.question, self._analyzer)

    def _named(self, hit: Hit) -> str:
        name = one_line(hit.document_id)
        return f"[{self._numbers[_place(hit)]}] {name} {hit.start}-{hit.end}"

    def _side_by_side_text(self) -> Iterator[str]:
        for row in self.side_by_side().rows:
            ranks = ((name, row.get(f"rank {name}")) for name in self._answered)
            found_by = ", ".join(f"{name} {rank}" for name, rank in ranks if rank is not None)
            yield f"{row['place']}: {found_by}"

    def _repr_html_(self) -> str:
        """Return the passages with the rank that each retriever gives them; texts are escaped."""
        sheet = self.side_by_side()
        first, *ranks = sheet.columns
        return table_html(replace(sheet, columns=(first, Column("text", "text", TEXT), *ranks)))


class _Line(NamedTuple):
    """A line, and how far it is indented."""

    indent: int
    text: Text


def block(found: Iterable[_Line]) -> RenderableType:
    """Return lines, each with its indent also where it is folded."""
    return Group(
        *(
            Padding(line.text, (0, 0, 0, line.indent)) if line.indent else line.text
            for line in found
        )
    )


def _place(hit: Hit) -> tuple[str, int, int]:
    return hit.document_id, hit.start, hit.end


def _marked(shown: Excerpt, *, styled: bool) -> Text:
    if styled:
        text = Text(shown.text)
        for start, end in shown.marks:
            text.stylize("bold yellow", start, end)
        return text
    pieces: list[str] = []
    last = 0
    for start, end in shown.marks:
        pieces += [shown.text[last:start], OPENING + shown.text[start:end] + CLOSING]
        last = end
    return Text("".join([*pieces, shown.text[last:]]))
