"""Writes a LlamaIndex ``EmbeddingQAFinetuneDataset``: ``dataset.json``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from rag_assets.sources.llamaindex import CORPUS_KEY, QUERIES_KEY, RELEVANT_KEY
from rag_assets.sources.writers.tables import (
    Tables,
    counted,
    flat_pairs,
    lost_fields,
    positive,
    rows_of,
)

FILE = "dataset.json"


def write_llamaindex(tables: Tables, folder: Path) -> list[str]:
    """Write the tables; only ids, texts and which documents are relevant are kept."""
    grades, notes = flat_pairs(tables.qrels)
    pairs, lost = positive(grades)
    facts: Counter[str] = Counter()
    corpus, queries = dict[str, str](), dict[str, str]()
    for row in rows_of(tables.documents):
        corpus[row["document_id"]] = row["text"]
        facts["titles"] += bool(row["title"])
        facts["documents"] += row["metadata"] != "{}"
    for row in rows_of(tables.queries):
        queries[row["query_id"]] = row["text"]
        facts["tags"] += bool(row["tags"])
        facts["metadata"] += row["metadata"] != "{}"
    relevant: dict[str, list[str]] = {query_id: [] for query_id in queries}
    for query_id, document_id in pairs:
        relevant[query_id].append(document_id)
    content = {QUERIES_KEY: queries, CORPUS_KEY: corpus, RELEVANT_KEY: relevant, "mode": "text"}
    with (folder / FILE).open("w", encoding="utf-8") as stream:
        json.dump(content, stream, ensure_ascii=False)
    many = "documents lose their metadata"
    return [
        *notes,
        *lost,
        *counted(facts["titles"], "document loses its title", "documents lose their titles"),
        *counted(facts["documents"], "document loses its metadata", many),
        *lost_fields(facts),
    ]
