"""Unjudged twins of relevant documents: they count as not relevant, though they answer as well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.labels.health.near_duplicates import Pair
from rag_assets.sources.fields import shown

NEAR = "near_duplicate_document"
UNJUDGED = "unjudged_twin"


class _Twin(NamedTuple):
    row: int
    similarity: float


def near_duplicate_documents(documents: pa.Table, pairs: Sequence[Pair]) -> pa.Table:
    """Return a warning for each document that nearly equals an earlier one.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        pairs: what ``near_duplicates`` found in its texts; equal ones are left to
            ``duplicate_documents``.
    """
    ids, texts = documents.column("document_id"), documents.column("text")
    best: dict[int, Pair] = {}
    for pair in pairs:
        nearest = best.get(pair.second)
        if nearest is None or pair.similarity > nearest.similarity:
            best[pair.second] = pair
    findings = []
    for pair in best.values():
        if not _same(texts[pair.first], texts[pair.second]):
            first, second = ids[pair.first].as_py(), ids[pair.second].as_py()
            message = f"is nearly {shown(first)}: {pair.similarity:.0%} of their word windows agree"
            findings.append(Finding(WARNING, NEAR, message, document_id=second))
    return findings_table(findings)


def unjudged_twins(qrels: pa.Table, documents: pa.Table, pairs: Sequence[Pair]) -> pa.Table:
    """Return a warning for each query and each unjudged near-duplicate of a relevant document.

    Where the judgment is a span, the twin must hold its text to the character.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        pairs: what ``near_duplicates`` found in its texts.
    """
    ids, texts = documents.column("document_id").to_pylist(), documents.column("text")
    twins = _twins(pairs)
    rows = {ids[row]: row for row in twins}
    judged = set(
        zip(*(qrels.column(n).to_pylist() for n in ("query_id", "document_id")), strict=True)
    )
    findings: dict[tuple[str, str], Finding] = {}
    for label in qrels.filter(pc.greater(qrels.column("grade"), 0)).to_pylist():
        query, relevant = label["query_id"], label["document_id"]
        for twin in twins.get(rows.get(relevant, -1), ()):
            other = ids[twin.row]
            if (query, other) not in judged and _holds(texts, rows[relevant], twin.row, label):
                message = (
                    f"is not judged, but {twin.similarity:.0%} like {shown(relevant)}, which is "
                    "relevant; it counts as not relevant"
                )
                findings.setdefault(
                    (query, other),
                    Finding(WARNING, UNJUDGED, message, query, other, label["evidence_id"]),
                )
    return findings_table(findings.values())


def _twins(pairs: Sequence[Pair]) -> dict[int, list[_Twin]]:
    by_row: dict[int, list[_Twin]] = defaultdict(list)
    for pair in pairs:
        by_row[pair.first].append(_Twin(pair.second, pair.similarity))
        by_row[pair.second].append(_Twin(pair.first, pair.similarity))
    return dict(by_row)


def _holds(texts: pa.ChunkedArray, relevant: int, twin: int, label: dict[str, int | None]) -> bool:
    if label["start"] is None:
        return True
    quote = texts[relevant].as_py()[label["start"] : label["end"]]
    return quote in texts[twin].as_py()


def _same(first: pa.StringScalar, other: pa.StringScalar) -> bool:
    return bool(first.as_py().split() == other.as_py().split())
