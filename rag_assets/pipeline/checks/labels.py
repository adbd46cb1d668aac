"""Label health of the source files: their own errors, and what may mislead.

Near-duplicates take longer than all else and are left to ``rag-assets validate``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.labels.health.duplicates import duplicate_documents, duplicate_queries
from rag_assets.labels.health.findings import ERROR, WARNING, Finding, reading_problems, rows
from rag_assets.labels.health.unusable_labels import dangling_ids, queries_without_relevant
from rag_assets.pipeline.checks.check import Check, Found
from rag_assets.pipeline.checks.reads import Reads
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.problems import collecting
from rag_assets.store.artifacts import Artifact, ArtifactKey


def found_in(tables: Iterable[pa.Table]) -> Found:
    """Return findings as what a check found: errors first, an error if there is one."""
    findings = [finding for table in tables for finding in rows(table)]
    findings.sort(key=lambda finding: finding.severity != ERROR)
    errors = sum(finding.severity == ERROR for finding in findings)
    counts = {"errors": errors, "warnings": len(findings) - errors}
    severity = ERROR if errors else WARNING
    return Found([_sentence(finding) for finding in findings], severity, counts)


def _sentence(finding: Finding) -> str:
    place = ":".join(str(part) for part in (finding.file, finding.line) if part is not None)
    named = [finding.query_id and f"query '{finding.query_id}'"]
    named += [finding.document_id and f"document '{finding.document_id}'"]
    subject = ", ".join(part for part in (place, *named) if part)
    return f"{finding.check}: {subject}: {finding.message}" if subject else finding.message


def unreadable(pipeline: Pipeline, asset: str, error: DataError) -> Found:
    """Return every problem of files of which reading stopped at the first, ``error``."""
    dataset = pipeline.experiment.dataset
    with collecting() as problems:
        try:
            if asset == "qrels":
                reads = Reads(pipeline)
                pipeline.experiment.read_qrels(reads.documents, reads.queries)
            else:
                {"documents": dataset.read_documents, "queries": dataset.read_queries}[asset]()
        except DataError as first:
            problems.append(first)
    return found_in([reading_problems(problems or [error])])


def _documents(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    return found_in([duplicate_documents(artifact.table())])


def _queries(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    return Found([], numbers={"queries": artifact.manifest.rows})


def _qrels(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    qrels, queries = artifact.table(), reads.queries
    keeps = reads.pipeline.experiment.keeps_unknown
    return found_in(
        [
            dangling_ids(qrels, reads.documents, queries, keeps_unknown=keeps),
            queries_without_relevant(qrels, queries),
            duplicate_queries(queries, qrels),
        ]
    )


NAME = "label_health"
DOCUMENTS = Check(NAME, "The documents can be read, and no two are the same.", _documents, True)
QUERIES = Check(NAME, "The queries can be read.", _queries, True)
QRELS = Check(
    NAME,
    "Every judgment can be used: its query, document and quote are there. A warning: queries "
    "without a relevant judgment, or that ask the same.",
    _qrels,
    True,
)
