"""Writes folders of JSON lines: the one format that holds all that the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.sources.folder_labels import JUDGMENTS, QUERIES
from rag_assets.sources.record_folders import JSONL_DOCUMENTS
from rag_assets.sources.writers.tables import (
    Tables,
    counted,
    metadata_of,
    own_name,
    rows_of,
    write_lines,
)
from rag_assets.store.canonical import canonical_json


def write_jsonl(tables: Tables, folder: Path) -> list[str]:
    """Write ``documents.jsonl``, ``queries.jsonl`` and, where there are labels, judgments.

    A span is written as a quote and its first character. A span that is blank cannot be quoted,
    and a tag without a character is none.
    """
    write_lines(folder / JSONL_DOCUMENTS, document_lines(tables.documents))
    write_lines(folder / f"{QUERIES}.jsonl", _query_lines(tables.queries))
    blank: list[str] = []
    if tables.qrels.num_rows:
        lines = _judgment_lines(tables, blank)
        write_lines(folder / f"{JUDGMENTS}.jsonl", lines)
    empty = sum("" in row["tags"] for row in rows_of(tables.queries))
    return [
        *counted(
            len(blank),
            "span of blanks is written as its whole document",
            "spans of blanks are written as their whole documents",
        ),
        *counted(empty, "query loses an empty tag", "queries lose an empty tag"),
    ]


def document_lines(documents: pa.Table) -> Iterator[str]:
    """Yield documents as lines of ``documents.jsonl``."""
    for row in rows_of(documents):
        line = {"document_id": row["document_id"], "title": row["title"], "text": row["text"]}
        yield canonical_json(_with_metadata(line, row))


def _query_lines(queries: pa.Table) -> Iterator[str]:
    for row in rows_of(queries):
        tags = [tag for tag in row["tags"] if tag]
        line = {"query_id": row["query_id"], "text": row["text"], "tags": tags}
        yield canonical_json(_with_metadata(line, row))


def _with_metadata(line: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    metadata = metadata_of(row)
    return {**line, "metadata": metadata} if metadata else line


def _judgment_lines(tables: Tables, blank: list[str]) -> Iterator[str]:
    texts = tables.documents.column("text")
    ids = tables.documents.column("document_id").to_pylist()
    numbers = {document_id: number for number, document_id in enumerate(ids)}
    for row in rows_of(tables.qrels):
        line = {"query_id": row["query_id"], "doc_id": row["document_id"]}
        line["relevance"] = row["grade"]
        if row["evidence_id"] != own_name(row):
            line["evidence_id"] = row["evidence_id"]
        if row["start"] is not None:
            quote = texts[numbers[row["document_id"]]].as_py()[row["start"] : row["end"]]
            if quote.strip():
                line |= {"quote": quote, "start": row["start"]}
            else:
                blank.append(row["query_id"])
        yield canonical_json(line)
