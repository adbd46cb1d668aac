"""What checks of labels return, and labels and queries that nothing can be measured with.

Judgments of queries and documents that do not exist, queries without a relevant document, filters
that ask for what no document has, and evidence that no chunk covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError, allowed_names
from rag_assets.evaluation.query_facts import (
    FilteredDocuments,
    declared_unanswerable,
    filter_of,
    metadata_of,
)
from rag_assets.schemas import COUNT, TEXT, Column, TableSchema, column_values
from rag_assets.sources.dataset import EMPTY, UNKNOWN_ID, RowError
from rag_assets.sources.tables import KnownIds

ERROR = "error"
WARNING = "warning"

FINDINGS = TableSchema(
    "findings",
    "one thing that is wrong, or may be, with documents, queries or qrels",
    ("check", "query_id", "document_id", "evidence_id", "file", "line", "message"),
    severity=Column(TEXT, "error: the label cannot be used; warning: it may mislead"),
    check=Column(TEXT, "kind of finding, such as unknown_id or quote_moved"),
    query_id=Column(TEXT, "the query that it is about", True),
    document_id=Column(TEXT, "the document that it is about", True),
    evidence_id=Column(TEXT, "the evidence that it is about", True),
    file=Column(TEXT, "the file that holds it, where known", True),
    line=Column(COUNT, "its line, counted from 1, where known", True),
    message=Column(TEXT, "what was found, for people"),
)
UNREADABLE = "unreadable"


class Finding(NamedTuple):
    """One row of :data:`FINDINGS`."""

    severity: str
    check: str
    message: str
    query_id: str | None = None
    document_id: str | None = None
    evidence_id: str | None = None
    file: str | None = None
    line: int | None = None


def reading_problems(problems: Iterable[DataError]) -> list[Finding]:
    """Return an error for each problem that ``Problems`` collected, without repeats.

    A table that is empty because its rows were refused is left out.
    """
    different = {str(problem): problem for problem in problems}
    findings = []
    for text, error in different.items():
        finding = Finding(ERROR, UNREADABLE, text)
        if isinstance(error, RowError):
            message = f"{error.key}: {error.problem}" if error.key else error.problem
            subject = (error.query_id, error.document_id, error.evidence_id)
            finding = Finding(ERROR, error.check, message, *subject, str(error.file), error.line)
        findings.append(finding)
    return [finding for finding in findings if finding.check != EMPTY] or findings


UNANSWERABLE = "no_relevant_document"
TEXT_CHANGED = "text_changed"
FILTER = "filter"
UNREACHABLE = "unreachable_evidence"


def dangling_ids(
    qrels: pa.Table, documents: pa.Table, queries: pa.Table, *, keeps_unknown: bool = False
) -> list[Finding]:
    """Return an error for each judgment whose query or document does not exist.

    ``unknown_id``: there is nothing like it. ``id_level``: it is the id of a chunk such as
    ``fares.md#0-200``;
    the message says which document is probably meant. Where unknown documents are wanted,
    ``keeps_unknown``, ``id_level`` alone is found, as a warning.
    """
    findings: list[Finding] = []
    for kind, table in (("query", queries), ("document", documents)):
        column = f"{kind}_id"
        ids, judged = table.column(column), pc.unique(qrels.column(column))
        existing = ids.filter(pc.is_in(ids, value_set=judged)).combine_chunks()
        dangling = qrels.filter(pc.invert(pc.is_in(qrels.column(column), value_set=existing)))
        if not dangling.num_rows:
            continue
        known, explained = KnownIds(kind, ids), dict[str, tuple[str, str]]()
        for row in dangling.to_pylist():
            unknown = row[column]
            if unknown not in explained:
                explained[unknown] = known.explain(unknown)
            check, message = explained[unknown]
            is_kept = keeps_unknown and kind == "document"
            if is_kept and check == UNKNOWN_ID:
                continue
            subject = (row["query_id"], row["document_id"], row["evidence_id"])
            findings.append(Finding(WARNING if is_kept else ERROR, check, message, *subject))
    return findings


def queries_without_relevant(qrels: pa.Table, queries: pa.Table) -> list[Finding]:
    """Return a warning for each query without a positive judgment: no mean counts it.

    A query that is meant to have none says so, and is no finding: it has the tag ``unanswerable``,
    or its metadata ``is_impossible: true``, as in SQuAD.
    """
    grades = list(column_values(qrels, "query_id", "grade"))
    judged = {query_id for query_id, grade in grades if grade >= 0}
    answerable = {query_id for query_id, grade in grades if grade > 0}
    explained = answerable | declared_unanswerable(queries)
    findings: list[Finding] = []
    for query_id in queries.column("query_id").to_pylist():
        if query_id not in explained:
            message = (
                "has only grades of 0; it counts as unanswerable and is in no mean"
                if query_id in judged
                else "has no judgment; it is in no mean"
            )
            findings.append(Finding(WARNING, UNANSWERABLE, message, query_id))
    return findings


def unmatched_filters(queries: pa.Table, documents: pa.Table, *, used: bool) -> list[Finding]:
    """Return a finding for each filter with a field, value or combination that no document has.

    Where a retriever obeys filters (``used``), what an evaluation refuses is an error, and what is
    no filter at all is told.
    """
    filters: dict[str, Mapping[str, Sequence[str]]] = {}
    findings: list[Finding] = []
    for query_id, fields in metadata_of(queries).items():
        try:
            filters[query_id] = filter_of(query_id, fields, DataError)
        except DataError as error:
            findings += [Finding(ERROR, FILTER, str(error), query_id)] if used else []
    matching = FilteredDocuments(documents, {name for f in filters.values() for name in f})
    for query_id, fields in filters.items():
        findings += _filter_findings(query_id, fields, matching, ERROR if used else WARNING)
    return findings


def _filter_findings(
    query_id: str, fields: Mapping[str, Sequence[str]], matching: FilteredDocuments, severity: str
) -> list[Finding]:
    problems: list[tuple[str, str]] = []
    for name, texts in fields.items():
        if name in matching.names:
            absent = [text for text in texts if not matching.of({name: [text]})]
            problems += [(WARNING, f"no document has {text!r} under {name!r}") for text in absent]
        else:
            allowed = allowed_names(name, sorted(matching.names))
            problems.append((severity, f"no document has the field {allowed}"))
    if fields and not problems and not matching.of(fields):
        problems.append((WARNING, "no document matches the whole filter"))
    return [Finding(level, FILTER, message, query_id) for level, message in problems]


def unreachable_evidence(relevant_units: Mapping[str, pa.Table], qrels: pa.Table) -> list[Finding]:
    """Return a warning for each relevant evidence and chunking without a unit that satisfies it.

    Such an evidence stays in R, so recall cannot reach 1. Units are those of each chunking.
    """
    documents: dict[tuple[str, str], str] = {}  # the first one of each evidence
    for row in qrels.select(["query_id", "evidence_id", "document_id"]).to_pylist():
        documents.setdefault((row["query_id"], row["evidence_id"]), row["document_id"])
    findings: list[Finding] = []
    for chunking, table in relevant_units.items():
        missed = pc.and_(pc.is_null(table.column("unit_id")), pc.greater(table.column("grade"), 0))
        message = (
            f"no chunk of chunking '{chunking}' contains half of the evidence or lies half "
            "inside it; it counts in R but cannot be found"
        )
        for row in table.filter(missed).to_pylist():
            key = (row["query_id"], row["evidence_id"])
            subject = (key[0], documents.get(key), key[1])
            findings.append(Finding(WARNING, UNREACHABLE, message, *subject))
    return findings
