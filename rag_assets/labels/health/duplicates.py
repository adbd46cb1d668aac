"""Documents that hold the same text, or nearly, and queries that ask the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.labels.health.near_duplicates import Pair
from rag_assets.sources.fields import shown

DUPLICATE_DOCUMENT = "duplicate_document"
NEAR = "near_duplicate_document"
DUPLICATE_QUERY = "duplicate_query"
CONFLICT = "conflicting_queries"

_WORDS = 8
"""Words by which texts are told apart first."""

_Judgment = tuple[str, int | None, int | None, int]
_Evidences = frozenset[frozenset[_Judgment]]


def same_texts(documents: pa.Table) -> list[list[str]]:
    """Return the groups of documents with the same text but for white space, titles apart.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`; blank texts are passed over.
    """
    ids, texts = documents.column("document_id"), documents.column("text")
    each = (text for chunk in texts.chunks for text in chunk.to_pylist())
    # Most texts differ in their first words, and are neither split as a whole nor hashed; and of a
    # large corpus one text is held at a time, unless hashes agree.
    beginnings = (hash(tuple(text.split(None, _WORDS)[:_WORDS])) for text in each)
    alike = _repeated(enumerate(beginnings))
    alike = _repeated((row, hash(_words(texts[row]))) for row in alike)
    groups: dict[str, list[str]] = defaultdict(list)
    for row in alike:
        groups[_words(texts[row])].append(ids[row].as_py())
    return [members for text, members in groups.items() if text and len(members) > 1]


def _repeated(hashes: Iterable[tuple[int, int]]) -> list[int]:
    """Return the rows with a hash that another one has too."""
    first: dict[int, int] = {}
    repeated: set[int] = set()
    for row, digest in hashes:
        if first.setdefault(digest, row) != row:
            repeated |= {first[digest], row}
    return sorted(repeated)


def _words(text: pa.StringScalar) -> str:
    """Return a text with one blank between words."""
    return " ".join(text.as_py().split())


def duplicate_documents(documents: pa.Table) -> pa.Table:
    """Return a warning for each document whose text an earlier one has.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
    """
    return findings_table(
        Finding(
            WARNING, DUPLICATE_DOCUMENT, f"has the same text as {shown(first)}", document_id=other
        )
        for first, *others in same_texts(documents)
        for other in others
    )


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


def duplicate_queries(queries: pa.Table, qrels: pa.Table) -> pa.Table:
    """Return a warning for each query whose text another one has, but for case and white space.

    ``duplicate_query``: their judgments are the same, so the question counts twice.
    ``conflicting_queries``: their judgments differ, so no ranking can satisfy both.

    Args:
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        qrels: table of :data:`rag_assets.schemas.QRELS`.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    ids, texts = queries.column("query_id").to_pylist(), queries.column("text").to_pylist()
    for query_id, text in zip(ids, texts, strict=True):
        folded = " ".join(text.split()).casefold()
        if folded:
            groups[folded].append(query_id)
    judged = _judgments(qrels)
    return findings_table(
        _finding(first, other, judged) for first, *others in groups.values() for other in others
    )


def _finding(first: str, other: str, judged: dict[str, _Evidences]) -> Finding:
    if judged.get(first) == judged.get(other):
        message = f"asks the same as query {shown(first)}, with the same judgments"
        return Finding(WARNING, DUPLICATE_QUERY, message, other)
    message = f"asks the same as query {shown(first)}, but its judgments differ"
    return Finding(WARNING, CONFLICT, message, other)


def _judgments(qrels: pa.Table) -> dict[str, _Evidences]:
    """Return the evidences of each query, whatever they are called."""
    by_query: dict[str, dict[str, set[_Judgment]]] = defaultdict(lambda: defaultdict(set))
    names = ("query_id", "evidence_id", "document_id", "start", "end", "grade")
    for query, evidence, *rest in zip(*(qrels.column(n).to_pylist() for n in names), strict=True):
        by_query[query][evidence].add((rest[0], rest[1], rest[2], rest[3]))
    return {query: frozenset(map(frozenset, rows.values())) for query, rows in by_query.items()}


def _same(first: pa.StringScalar, other: pa.StringScalar) -> bool:
    return _words(first) == _words(other)
