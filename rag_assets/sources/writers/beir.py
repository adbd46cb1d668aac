"""Writes BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.sources.beir import CORPUS, DEFAULT_SUBSET, QRELS_FOLDER, QUERIES_FILE
from rag_assets.sources.beir_files import DOCUMENT_KEY, QUERY_KEY, SCORE_KEY
from rag_assets.sources.writers.tables import (
    Tables,
    corpus_lines,
    counted,
    flat_pairs,
    metadata_of,
    refuse_ids,
    rows_of,
    write_lines,
)
from rag_assets.store.canonical import canonical_json


def write_beir(tables: Tables, folder: Path) -> list[str]:
    """Write the tables; spans, groups of alternatives and evidence ids are not kept.

    A query's tags are ``metadata.tags``, where this reader's own and other tools look for them.

    Raises:
        DataError: an id holds a tab, or a blank at an end.
    """
    refuse_ids(tables, _unfit, "holds a tab or begins or ends with a blank: qrels cannot hold it")
    write_lines(folder / CORPUS, corpus_lines(tables.documents))
    write_lines(folder / QUERIES_FILE, _query_lines(tables.queries))
    grades, notes = flat_pairs(tables.qrels)
    (folder / QRELS_FOLDER).mkdir()
    rows = (f"{query}\t{document}\t{grade}" for (query, document), grade in grades.items())
    lines = (f"{QUERY_KEY}\t{DOCUMENT_KEY}\t{SCORE_KEY}", *rows)
    write_lines(folder / QRELS_FOLDER / f"{DEFAULT_SUBSET}.tsv", lines)
    displaced = sum(_gives_way(row, metadata_of(row)) for row in rows_of(tables.queries))
    return notes + counted(
        displaced,
        "metadata field `tags` gives way to the tags",
        "metadata fields `tags` give way to the tags",
    )


def _query_lines(queries: pa.Table) -> Iterator[str]:
    for row in rows_of(queries):
        metadata = metadata_of(row)
        if _gives_way(row, metadata):
            del metadata["tags"]
        if row["tags"]:
            metadata["tags"] = row["tags"]
        line = {"_id": row["query_id"], "text": row["text"]}
        yield canonical_json({**line, "metadata": metadata} if metadata else line)


def _gives_way(row: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Return whether a metadata field would be read back as the tags of the query."""
    tags = metadata.get("tags", "")
    is_tags = isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    return "tags" in metadata and (bool(row["tags"]) or is_tags)


def _unfit(name: str) -> bool:
    return "\t" in name or name != name.strip(" ")
