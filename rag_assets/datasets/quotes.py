"""Where a quoted passage stands in a document."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.datasets.fields import Place, shown

KEY = "quote"


class Quotes:
    """Finds quotes in the texts of a documents table."""

    def __init__(self, documents: pa.Table) -> None:
        """Search in ``documents`` (``schemas.DOCUMENTS``)."""
        self._ids = documents.column("document_id")
        self._titles = documents.column("title")
        self._texts = documents.column("text")

    def locate(self, quote: str, row: int, place: Place) -> tuple[int, int]:
        """Return the span ``[start, end)`` of a quote in the text of document ``row``.

        Spans count characters (Unicode code points) of the text.

        Raises:
            DataError: the quote is blank, not there, or there more than once.
        """
        if not quote.strip():
            raise place.error("is blank; leave it out to judge the whole document", KEY)
        text = self._texts[row].as_py()
        start = text.find(quote)
        if start < 0:
            raise place.error(self._why_absent(quote, text, row), KEY)
        second = text.find(quote, start + 1)
        if second >= 0:
            raise place.error(
                f"{shown(quote)} occurs more than once in {self._name(row)}, at characters "
                f"{start} and {second}; quote more, so that it occurs once",
                KEY,
            )
        return start, start + len(quote)

    def _why_absent(self, quote: str, text: str, row: int) -> str:
        absent = f"{shown(quote)} is not in {self._name(row)}"
        folded = re.search(r"\s+".join(map(re.escape, quote.split())), text)
        if folded is not None:
            span = f"{folded.start()}-{folded.end()}"
            return f"{absent} as written, only with other white space, at characters {span}"
        if quote in self._titles[row].as_py():
            return f"{absent}, only in its title; a quote must be from the text"
        holders = pc.indices_nonzero(pc.match_substring(self._texts, quote)).to_pylist()
        return f"{absent}; it is in {self._name(holders[0])}" if holders else absent

    def _name(self, row: int) -> str:
        return shown(self._ids[row].as_py())
