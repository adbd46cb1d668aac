"""Small tables in the shapes of the pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.labels.findings import FINDINGS, Finding
from rag_assets.schemas import CHUNKS, DOCUMENTS, QRELS, QUERIES

Span = tuple[int, int]
Label = tuple[str, str, str, Span | None, int]


def documents(
    texts: Mapping[str, str], metadata: Mapping[str, object] = {}, title: str | None = ""
) -> pa.Table:
    """Documents of one title; of None, each has its id as its title."""
    rows: list[dict[str, object]] = [
        {
            "document_id": i,
            "title": i if title is None else title,
            "text": t,
            "metadata": json.dumps(metadata.get(i, {})),
        }
        for i, t in texts.items()
    ]
    return DOCUMENTS.from_rows(rows)


def queries(
    texts: Mapping[str, str],
    tags: Mapping[str, list[str]] = {},
    metadata: Mapping[str, object] = {},
) -> pa.Table:
    rows: list[dict[str, object]] = [
        {
            "query_id": i,
            "text": t,
            "tags": tags.get(i, []),
            "metadata": json.dumps(metadata.get(i, {})),
        }
        for i, t in texts.items()
    ]
    return QUERIES.from_rows(rows)


def qrels(*labels: Label) -> pa.Table:
    """Rows of (query, evidence, document, span, grade)."""
    return QRELS.from_rows(
        [
            {
                "query_id": query,
                "evidence_id": evidence,
                "document_id": document,
                "start": span[0] if span else None,
                "end": span[1] if span else None,
                "grade": grade,
            }
            for query, evidence, document, span, grade in labels
        ]
    )


def chunks(texts: Mapping[str, str], spans: Mapping[str, list[Span]], title: str = "") -> pa.Table:
    rows: list[dict[str, object]] = [
        {
            "chunk_id": f"{document}#{start}-{end}",
            "document_id": document,
            "start": start,
            "end": end,
            "title": title,
            "text": texts[document][start:end],
        }
        for document, pieces in spans.items()
        for start, end in pieces
    ]
    names = set(CHUNKS.arrow().names)
    for row in rows:
        row.update({name: None for name in names - row.keys()})
        row.update({"heading_path": ""} if "heading_path" in names else {})
    return CHUNKS.from_rows(rows)


def reached(labels: pa.Table, cut: pa.Table) -> dict[str, list[str]]:
    """Evidence -> spans of the chunks that satisfy it, as ``0-20``."""
    found: dict[str, list[str]] = {}
    for row in relevant_units(labels, cut, "evidence").to_pylist():
        units = found.setdefault(row["evidence_id"], [])
        if row["unit_id"] is not None:
            units.append(row["unit_id"].split("#")[1])
    return found


def kinds(findings: pa.Table | list[Finding]) -> list[tuple[str, str | None, str | None]]:
    """(check, query, document) of each finding; a table of them keeps its contract."""
    table = (
        findings
        if isinstance(findings, pa.Table)
        else FINDINGS.from_rows([each._asdict() for each in findings])
    )
    rows = FINDINGS.check(table).to_pylist()
    return [(row["check"], row["query_id"], row["document_id"]) for row in rows]
