"""Labels and a corpus that changed under them."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.schemas import QRELS
from rag_assets.sources.fields import shown
from rag_assets.sources.judgments import MAX_SEARCHED_QUOTES

VANISHED = "document_vanished"
CHANGED = "evidence_changed"
MOVED = "evidence_moved"

_Row = dict[str, Any]


class Churn(NamedTuple):
    """The labels as they stand in the new corpus, and what became of those that changed.

    ``qrels`` holds every label that could be kept: untouched, or moved to where its text is now.
    """

    qrels: pa.Table
    findings: pa.Table


def label_churn(qrels: pa.Table, before: pa.Table, after: pa.Table) -> Churn:
    """Follow labels from one version of a corpus to another.

    A span whose text is still there is untouched. One whose text now stands elsewhere, exactly
    once in its document or else exactly once in the corpus, is moved; so is a label whose document
    has another id now and the same text. All others are lost:
    ``document_vanished``, or ``evidence_changed`` when its text is gone or ambiguous. A label of a
    whole document is kept when the text changed, and reported, because nobody has judged the new
    text. All findings are warnings.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`, labels of ``before``.
        before: table of :data:`rag_assets.schemas.DOCUMENTS`.
        after: the same corpus, later.
    """
    corpora = _Corpora(before, after, qrels)
    remaining: list[_Row] = []
    findings: list[Finding] = []
    for row in qrels.to_pylist():
        now, check, message = _follow(row, corpora)
        if now is not None:
            remaining.append(now)
        if check:
            subject = (row["query_id"], row["document_id"], row["evidence_id"])
            findings.append(Finding(WARNING, check, message, *subject))
    return Churn(QRELS.from_rows(remaining), findings_table(findings))


class _Corpora:
    """The texts of the judged documents before and after, and where else a text stands now."""

    def __init__(self, before: pa.Table, after: pa.Table, qrels: pa.Table) -> None:
        judged = qrels.column("document_id").combine_chunks().unique()
        self.before = _texts(before, judged)
        self.after = _texts(after, judged)
        self._all = after
        self._searched = 0

    def renamed(self, text: str) -> str | None:
        """Return the one new document with exactly this text."""
        names = self._by_text.get(text, [])
        return names[0] if len(names) == 1 else None

    @cached_property
    def _by_text(self) -> dict[str, list[str]]:
        """Text of a judged document that vanished -> the new documents that have it."""
        gone = {text for name, text in self.before.items() if name not in self.after}
        by_text: dict[str, list[str]] = defaultdict(list)
        for name, text in zip(self._all["document_id"], self._all["text"], strict=True):
            if text.as_py() in gone:
                by_text[text.as_py()].append(name.as_py())
        return by_text

    def elsewhere(self, quote: str) -> tuple[str, int] | None:
        """Return document and start of a text that stands exactly once in the new corpus."""
        self._searched += 1
        if self._searched > MAX_SEARCHED_QUOTES:
            return None
        texts = self._all.column("text")
        holders = pc.indices_nonzero(pc.match_substring(texts, quote)).to_pylist()
        if len(holders) != 1 or not quote.strip():
            return None
        text = texts[holders[0]].as_py()
        start = _only_place(quote, text)
        return None if start is None else (self._all["document_id"][holders[0]].as_py(), start)


def _texts(documents: pa.Table, ids: pa.Array) -> dict[str, str]:
    chosen = documents.filter(pc.is_in(documents.column("document_id"), value_set=ids))
    columns = (chosen.column(name).to_pylist() for name in ("document_id", "text"))
    return dict(zip(*columns, strict=True))


def _follow(row: _Row, corpora: _Corpora) -> tuple[_Row | None, str, str]:
    """Return the label as it is now (None: lost), and the finding about it, if any."""
    document, start, end = row["document_id"], row["start"], row["end"]
    old, new = corpora.before.get(document), corpora.after.get(document)
    if old is None or old == new:
        return row, "", ""
    renamed = corpora.renamed(old) if new is None else None
    if renamed is not None:
        return {**row, "document_id": renamed}, MOVED, f"the document is now {shown(renamed)}"
    if start is None:
        if new is None:
            return None, VANISHED, "the judged document is no longer in the corpus"
        return row, CHANGED, "the text of the judged document changed; judge it again"
    quote = old[start:end]
    if new is not None and new[start:end] == quote:
        return row, "", ""
    place = _only_place(quote, new) if new is not None else None
    new_place = (document, place) if place is not None else None
    if new_place is None and (new is None or quote not in new):
        new_place = corpora.elsewhere(quote)
    if new_place is not None:
        return _moved(row, *new_place)
    if new is None:
        return None, VANISHED, f"the document is no longer in the corpus, nor is {shown(quote)}"
    why = "is there more than once now" if quote in new else "is no longer there"
    return None, CHANGED, f"{shown(quote)} {why}; label it again"


def _moved(row: _Row, document: str, start: int) -> tuple[_Row, str, str]:
    end = start + row["end"] - row["start"]
    where = "" if document == row["document_id"] else f" of {shown(document)}"
    message = f"moved from characters {row['start']}-{row['end']} to {start}-{end}{where}"
    return {**row, "document_id": document, "start": start, "end": end}, MOVED, message


def _only_place(quote: str, text: str) -> int | None:
    start = text.find(quote)
    return start if start >= 0 and text.find(quote, start + 1) < 0 else None
