"""Texts as the labelling page shows them: windows of documents, the question's words marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import UsageError
from rag_assets.labels.pool import PooledUnit
from rag_assets.retrieval.lexical.analyzers import (
    analyze,
    analyze_all,
    resolve_analyzer,
)
from rag_assets.sources.fields import shown

WINDOW = 20_000
"""Characters that are sent at once; a browser is slow with a line of a million."""

_SAMPLE = 200
"""Documents from which the language is detected."""

_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff\u0e31-\u0e4e"
)
_WORD = re.compile(rf"\w[\w{_MARKS}]*")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_HEADING = re.compile(r"^ {0,3}#{1,6} +(.{1,200})", re.MULTILINE)


class Passages:
    """The documents and questions of an experiment, to be read piece by piece.

    Args:
        analyzer: by which words are the same.
    """

    def __init__(self, documents: pa.Table, queries: pa.Table, analyzer: str = "auto") -> None:
        self._titles, self._texts = documents.column("title"), documents.column("text")
        self._ids = documents.column("document_id").to_pylist()
        self._rows = {name: row for row, name in enumerate(self._ids)}
        self._lengths = pc.utf8_length(self._texts).to_pylist()
        columns = (queries.column(name).to_pylist() for name in ("query_id", "text"))
        self._questions: dict[str, str] = dict(zip(*columns, strict=True))
        sample = [text[:WINDOW] for text in self._texts.slice(0, _SAMPLE).to_pylist()]
        self._analyzer = resolve_analyzer(analyzer, sample)

    def question(self, query_id: str) -> str:
        """Return the text of a question.

        Raises:
            UsageError: there is none with this id.
        """
        if query_id not in self._questions:
            raise UsageError(f"there is no question {shown(query_id)}")
        return self._questions[query_id]

    def holds(self, item: PooledUnit) -> bool:
        """Return whether the question and the span are still there."""
        length = self._lengths[self._rows[item.document_id]] if item[1] in self._rows else 0
        return item.query_id in self._questions and item.start < item.end <= length

    def place(self, item: PooledUnit) -> dict[str, Any]:
        """Return where a passage stands: title, heading above it, line, length of the document."""
        row = self._rows[item.document_id]
        text = self._texts[row].as_py()
        headings = _HEADING.findall(text[max(0, item.start - WINDOW) : item.start])
        return {
            "document_id": item.document_id,
            "title": self._titles[row].as_py()[:1000],
            "heading": headings[-1] if headings else "",
            "line": text.count("\n", 0, item.start) + 1,
            "length": len(text),
            "start": item.start,
            "end": item.end,
        }

    def task(self, item: PooledUnit) -> dict[str, Any]:
        """Return a question and its passage as a page shows them."""
        question = self.question(item.query_id)[:WINDOW]
        lead = {"query_id": item.query_id, "question": question}
        return {**lead, **self.place(item), "text": self.marked_text(item)}

    def marked_text(self, item: PooledUnit) -> dict[str, Any]:
        """Return at most :data:`WINDOW` characters of a span, the words of its question marked.

        Raises:
            UsageError: there is no such question or document.
        """
        question, (document_id, start, end) = self.question(item.query_id)[:WINDOW], item[1:]
        if document_id not in self._rows:
            raise UsageError(f"there is no document {shown(document_id)}")
        text = self._texts[self._rows[document_id]].as_py()[start : min(end, start + WINDOW)]
        parts = list(marked(text, question, self._analyzer))
        return {"start": start, "end": start + len(text), "parts": parts}


def marked(text: str, wanted: str, analyzer: str) -> Iterator[tuple[str, bool]]:
    """Yield a text in parts, each with whether it is marked: a word of ``wanted``.

    The analyzer says which words are the same. Of scripts without blanks between words those pieces
    are marked that are tokens of ``wanted``.
    """
    tokens = set(analyze(analyzer, wanted))
    pieces = sorted((token for token in tokens if _CJK.search(token)), key=len, reverse=True)
    inside = re.compile("|".join(map(re.escape, pieces)) or r"(?!)")
    words = sorted(set(_WORD.findall(text)))
    tokens_of = dict(zip(words, analyze_all(analyzer, words), strict=True))
    edges: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        if _CJK.search(match[0]):
            edges += [piece.span() for piece in inside.finditer(text, *match.span())]
        elif not tokens.isdisjoint(tokens_of[match[0]]):
            edges.append(match.span())
    last = 0
    for start, end in edges:
        if start > last:
            yield text[last:start], False
        yield text[start:end], True
        last = end
    if last < len(text):
        yield text[last:], False
