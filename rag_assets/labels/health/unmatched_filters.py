"""Filters of queries that ask for what no document has."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rag_assets.errors import DataError, allowed_names
from rag_assets.evaluation.query_facts import metadata_of
from rag_assets.evaluation.query_filters import FilteredDocuments, Wanted, filter_of
from rag_assets.labels.health.findings import ERROR, WARNING, Finding, findings_table

CHECK = "filter"


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
    asked: dict[str, Wanted] = {}
    findings: list[Finding] = []
    for query_id, fields in metadata_of(queries).items():
        try:
            asked[query_id] = filter_of(query_id, fields, DataError)
        except DataError as error:
            findings += [Finding(ERROR, CHECK, str(error), query_id)] if used else []
    matching = FilteredDocuments(documents, {name for one in asked.values() for name in one})
    for query_id, wanted in asked.items():
        findings += _findings(query_id, wanted, matching, ERROR if used else WARNING)
    return findings_table(findings)


def _findings(
    query_id: str, wanted: Wanted, matching: FilteredDocuments, severity: str
) -> Iterator[Finding]:
    has_problem = False
    for name, texts in wanted.items():
        if name not in matching.names:
            allowed = allowed_names(name, sorted(matching.names))
            yield Finding(severity, CHECK, f"no document has the field {allowed}", query_id)
            has_problem = True
            continue
        for text in texts:
            if not matching.of({name: [text]}):
                yield Finding(WARNING, CHECK, f"no document has {text!r} under {name!r}", query_id)
                has_problem = True
    if wanted and not has_problem and not matching.of(wanted):
        yield Finding(WARNING, CHECK, "no document has all that the filter asks for", query_id)
