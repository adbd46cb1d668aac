"""Documents that hold the same text, or nearly, and queries that ask the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa

from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.labels.health.near_duplicates import Pair
from rag_assets.sources.fields import shown

DUPLICATE_DOCUMENT = "duplicate_document"
NEAR = "near_duplicate_document"
DUPLICATE_QUERY = "duplicate_query"
CONFLICT = "conflicting_queries"
UNJUDGED = "unjudged_twin"

_WORDS = 8
"""Words by which texts are told apart first."""


def duplicate_documents(documents: pa.Table) -> pa.Table:
    """Return a warning for each document whose text, but for white space, an earlier one has.

    Titles do not count, and blank texts are passed over.
    """
    ids, texts = documents.column("document_id"), documents.column("text")
    # Most texts differ in their first words, and are not split as a whole; and of a large corpus
    # one text is held at a time, unless its beginning is that of another.
    rows: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(text for chunk in texts.chunks for text in chunk.to_pylist()):
        rows[hash(tuple(text.split(None, _WORDS)[:_WORDS]))].append(row)
    alike = sorted(row for same in rows.values() if len(same) > 1 for row in same)
    groups: dict[str, list[str]] = defaultdict(list)
    for row in alike:
        groups[_words(texts[row])].append(ids[row].as_py())
    return findings_table(
        Finding(WARNING, DUPLICATE_DOCUMENT, f"has the same text as {shown(first)}", None, other)
        for text, (first, *others) in groups.items()
        for other in others
        if text
    )


def _words(text: pa.StringScalar) -> str:
    """Return a text with one blank between words."""
    return " ".join(text.as_py().split())


def near_duplicate_documents(documents: pa.Table, pairs: Sequence[Pair]) -> pa.Table:
    """Return a warning for each document that nearly equals an earlier one, by pairs of its rows.

    Equal texts are left to :func:`duplicate_documents`.
    """
    ids, texts = documents.column("document_id"), documents.column("text")
    best: dict[int, Pair] = {}
    for pair in pairs:
        if pair.second not in best or pair.similarity > best[pair.second].similarity:
            best[pair.second] = pair
    findings = []
    for pair in best.values():
        if _words(texts[pair.first]) != _words(texts[pair.second]):
            first, second = ids[pair.first].as_py(), ids[pair.second].as_py()
            message = f"is nearly {shown(first)}: {pair.similarity:.0%} of their word windows agree"
            findings.append(Finding(WARNING, NEAR, message, document_id=second))
    return findings_table(findings)


def unjudged_twins(qrels: pa.Table, documents: pa.Table, pairs: Sequence[Pair]) -> pa.Table:
    """Return a warning for each query and each unjudged near-duplicate of a relevant document.

    Where the judgment is a span, the twin must hold its text to the character. ``pairs`` are rows
    of the documents.
    """
    ids, texts = documents.column("document_id").to_pylist(), documents.column("text")
    twins: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for first, second, similarity in pairs:
        twins[ids[first]].append((first, second, similarity))
        twins[ids[second]].append((second, first, similarity))
    labels = qrels.to_pylist()
    judged = {(label["query_id"], label["document_id"]) for label in labels}
    findings: dict[tuple[str, str], Finding] = {}
    for label in (label for label in labels if label["grade"] > 0):
        relevant = label["document_id"]
        for row, twin, similarity in twins.get(relevant, ()):
            pair = (label["query_id"], ids[twin])
            quote = ""
            if label["start"] is not None:
                quote = texts[row].as_py()[label["start"] : label["end"]]
            if pair in judged or pair in findings or quote not in texts[twin].as_py():
                continue
            message = (
                f"is not judged, but {similarity:.0%} like {shown(relevant)}, which is relevant; "
                "it counts as not relevant"
            )
            findings[pair] = Finding(WARNING, UNJUDGED, message, *pair, label["evidence_id"])
    return findings_table(findings.values())


def duplicate_queries(queries: pa.Table, qrels: pa.Table) -> pa.Table:
    """Return a warning for each query whose text another one has, but for case and white space.

    ``duplicate_query``: their judgments are the same, so the question counts twice.
    ``conflicting_queries``: their judgments differ, so no ranking can satisfy both.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    ids, texts = queries.column("query_id").to_pylist(), queries.column("text").to_pylist()
    for query_id, text in zip(ids, texts, strict=True):
        groups[" ".join(text.split()).casefold()].append(query_id)
    judged, findings = _judgments(qrels), []
    for text, (first, *others) in groups.items():
        for other in others if text else ():
            same = judged.get(first) == judged.get(other)
            how = ", with the same judgments" if same else ", but its judgments differ"
            message = f"asks the same as query {shown(first)}{how}"
            check = DUPLICATE_QUERY if same else CONFLICT
            findings.append(Finding(WARNING, check, message, other))
    return findings_table(findings)


def _judgments(qrels: pa.Table) -> dict[str, frozenset[frozenset[tuple[object, ...]]]]:
    """Return the evidences of each query, whatever they are called."""
    by_query: dict[str, dict[str, set[tuple[object, ...]]]] = defaultdict(lambda: defaultdict(set))
    names = ("query_id", "evidence_id", "document_id", "start", "end", "grade")
    for query, evidence, *rest in zip(*(qrels.column(n).to_pylist() for n in names), strict=True):
        by_query[query][evidence].add(tuple(rest))
    return {query: frozenset(map(frozenset, rows.values())) for query, rows in by_query.items()}
