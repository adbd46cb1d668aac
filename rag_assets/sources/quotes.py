"""Where a quoted passage stands in a document."""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.sources.fields import Place, shown
from rag_assets.sources.problems import FORMAT, QUOTE_MOVED, QUOTE_TWICE, QUOTE_VANISHED

KEY = "quote"


ELSEWHERE_FOR = 500
"""For so many absent quotes the whole corpus is searched."""


class Unlocated(NamedTuple):
    """Why a quote has no place: the kind of problem, and a sentence about it."""

    check: str
    problem: str


class Quotes:
    """Finds quotes in the texts of a documents table."""

    def __init__(self, documents: pa.Table) -> None:
        """Search in ``documents`` (``schemas.DOCUMENTS``)."""
        self._ids = documents.column("document_id")
        self._titles = documents.column("title")
        self._texts = documents.column("text")
        self._absent = 0

    def locate(
        self, quote: str, row: int, place: Place, start: int | None = None
    ) -> tuple[int, int]:
        """Return the span ``[start, end)`` of a quote in the text of document ``row``.

        Spans count characters (Unicode code points) of the text. A quote that stands at ``start``
        is that one, however often it occurs; one that moved is looked for.

        Raises:
            DataError: the quote is blank, not there, or there more than once.
        """
        found = self.find(quote, row, start)
        if isinstance(found, Unlocated):
            raise place.error(found.problem, KEY, found.check)
        return found

    def find(self, quote: str, row: int, said: int | None = None) -> tuple[int, int] | Unlocated:
        """Return the span of a quote in the text of document ``row``, or why there is none.

        ``said`` is where the label says that the quote begins.
        """
        if not quote.strip():
            return Unlocated(FORMAT, "is blank; leave it out to judge the whole document")
        text = self._texts[row].as_py()
        if said is not None and text.startswith(quote, said):
            return said, said + len(quote)
        start = text.find(quote)
        if start < 0:
            return self._why_absent(quote, text, row)
        second = text.find(quote, start + 1)
        if second >= 0:
            return Unlocated(
                QUOTE_TWICE,
                f"{shown(quote)} occurs more than once in {self._name(row)}, at characters "
                f"{start} and {second}; quote more, so that it occurs once",
            )
        return start, start + len(quote)

    def _why_absent(self, quote: str, text: str, row: int) -> Unlocated:
        absent = f"{shown(quote)} is not in {self._name(row)}"
        folded = re.search(r"\s+".join(map(re.escape, quote.split())), text)
        if folded is not None:
            span = f"{folded.start()}-{folded.end()}"
            problem = f"{absent} as written, only with other white space, at characters {span}"
            return Unlocated(QUOTE_MOVED, problem)
        if quote in self._titles[row].as_py():
            problem = f"{absent}, only in its title; a quote must be from the text"
            return Unlocated(QUOTE_MOVED, problem)
        self._absent += 1
        if self._absent > ELSEWHERE_FOR:
            return Unlocated(QUOTE_VANISHED, absent)
        holders = pc.indices_nonzero(pc.match_substring(self._texts, quote)).to_pylist()
        if holders:
            return Unlocated(QUOTE_MOVED, f"{absent}; it is in {self._name(holders[0])}")
        return Unlocated(QUOTE_VANISHED, absent)

    def _name(self, row: int) -> str:
        return shown(self._ids[row].as_py())
