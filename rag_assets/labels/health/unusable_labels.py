"""Labels and queries that nothing can be measured with.

Judgments of queries and documents that do not exist, queries without a relevant document, filters
that ask for what no document has, and evidence that no chunk covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError, allowed_names
from rag_assets.evaluation.query_facts import declared_unanswerable, metadata_of
from rag_assets.evaluation.query_filters import Filter, FilteredDocuments, filter_of
from rag_assets.labels.health.findings import ERROR, WARNING, Finding, findings_table
from rag_assets.sources.problems import UNKNOWN_ID
from rag_assets.sources.tables import KnownIds

UNANSWERABLE = "no_relevant_document"
FILTER = "filter"
UNREACHABLE = "unreachable_evidence"


def dangling_ids(
    qrels: pa.Table, documents: pa.Table, queries: pa.Table, *, keeps_unknown: bool = False
) -> pa.Table:
    """Return an error for each judgment whose query or document does not exist.

    ``unknown_id``: there is nothing like it. ``id_level``: it is the id of a chunk such as
    ``fares.md#0-200``, a file name without its end, or a document where the corpus holds chunks;
    the message says which document is probably meant.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`, its ids not checked.
        documents: with the column ``document_id``.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        keeps_unknown: whether unknown documents are wanted: then ``id_level`` alone is found, as a
            warning, for there the corpus has the document under another id.
    """
    findings: list[Finding] = []
    for kind, table in (("query", queries), ("document", documents)):
        column = f"{kind}_id"
        dangling = pc.invert(pc.is_in(qrels.column(column), value_set=_ids(table, column)))
        ids = KnownIds(kind, table.column(column))
        explained: dict[str, tuple[str, str]] = {}
        for row in qrels.filter(dangling).to_pylist():
            unknown = row[column]
            if unknown not in explained:
                explained[unknown] = ids.explain(unknown)
            check, message = explained[unknown]
            is_kept = keeps_unknown and kind == "document"
            if is_kept and check == UNKNOWN_ID:
                continue
            subject = (row["query_id"], row["document_id"], row["evidence_id"])
            findings.append(Finding(WARNING if is_kept else ERROR, check, message, *subject))
    return findings_table(findings)


def _ids(table: pa.Table, column: str) -> pa.Array:
    return table.column(column).combine_chunks()


def queries_without_relevant(qrels: pa.Table, queries: pa.Table) -> pa.Table:
    """Return a warning for each query without a positive judgment: no mean counts it.

    A query that is meant to have none says so, and is no finding: it has the tag ``unanswerable``,
    or its metadata ``is_impossible: true``, as in SQuAD.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
    """
    positive = qrels.filter(pc.greater(qrels.column("grade"), 0)).column("query_id")
    judged = set(
        qrels.filter(pc.greater_equal(qrels.column("grade"), 0)).column("query_id").to_pylist()
    )
    answerable = set(positive.to_pylist())
    explained = answerable | declared_unanswerable(queries)
    findings = []
    for query_id in queries.column("query_id").to_pylist():
        if query_id not in explained:
            message = (
                "has only grades of 0; it is counted as unanswerable and enters no mean"
                if query_id in judged
                else "has no judgment; it is without labels and enters no mean"
            )
            findings.append(Finding(WARNING, UNANSWERABLE, message, query_id))
    return findings_table(findings)


def unmatched_filters(queries: pa.Table, documents: pa.Table, *, used: bool) -> pa.Table:
    """Return a finding for each filter with a field, value or combination that no document has.

    Args:
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        used: whether a retriever obeys filters; what an evaluation refuses is then an error, and
            what is no filter at all is told.

    Returns:
        Table of :data:`rag_assets.labels.health.findings.FINDINGS`.
    """
    filters: dict[str, Filter] = {}
    findings: list[Finding] = []
    for query_id, fields in metadata_of(queries).items():
        try:
            filters[query_id] = filter_of(query_id, fields, DataError)
        except DataError as error:
            findings += [Finding(ERROR, FILTER, str(error), query_id)] if used else []
    matching = FilteredDocuments(documents, {name for f in filters.values() for name in f})
    for query_id, fields in filters.items():
        findings += _filter_findings(query_id, fields, matching, ERROR if used else WARNING)
    return findings_table(findings)


def _filter_findings(
    query_id: str, fields: Filter, matching: FilteredDocuments, severity: str
) -> Iterator[Finding]:
    has_problem = False
    for name, texts in fields.items():
        if name not in matching.names:
            allowed = allowed_names(name, sorted(matching.names))
            yield Finding(severity, FILTER, f"no document has the field {allowed}", query_id)
            has_problem = True
            continue
        for text in texts:
            if not matching.of({name: [text]}):
                yield Finding(WARNING, FILTER, f"no document has {text!r} under {name!r}", query_id)
                has_problem = True
    if fields and not has_problem and not matching.of(fields):
        yield Finding(WARNING, FILTER, "no document has all that the filter asks for", query_id)


def unreachable_evidence(relevant_units: Mapping[str, pa.Table], qrels: pa.Table) -> pa.Table:
    """Return a warning for each relevant evidence and chunking without a unit that satisfies it.

    Such an evidence stays in R, so recall cannot reach 1.

    Args:
        relevant_units: chunking -> table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        qrels: table of :data:`rag_assets.schemas.QRELS`.
    """
    documents = _first_documents(qrels)
    findings = []
    for chunking, table in relevant_units.items():
        missed = pc.and_(pc.is_null(table.column("unit_id")), pc.greater(table.column("grade"), 0))
        for row in table.filter(missed).to_pylist():
            key = (row["query_id"], row["evidence_id"])
            message = (
                f"no chunk of chunking '{chunking}' holds half of the evidence or lies half in "
                "it; it stays in R and cannot be found"
            )
            findings.append(
                Finding(WARNING, UNREACHABLE, message, key[0], documents.get(key), key[1])
            )
    return findings_table(findings)


def _first_documents(qrels: pa.Table) -> dict[tuple[str, str], str]:
    """Return the first document of each evidence."""
    first: dict[tuple[str, str], str] = {}
    columns = (qrels[name].to_pylist() for name in ("query_id", "evidence_id", "document_id"))
    for query, evidence, document in zip(*columns, strict=True):
        first.setdefault((query, evidence), document)
    return first
