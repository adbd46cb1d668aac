"""Which queries were made from the same source, so are not independent of each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.query_facts import Fail, Fields

DOCUMENT = "document"
QUERY = "query."
NONE = "none"

FEWEST = 20
"""Clusters below which a test over them says little: an estimate of the variance needs many."""

LARGEST = 0.2
"""Largest share of the queries that one of them may hold: it would outweigh all others."""


def document_clusters(qrels: pa.Table) -> dict[str, str]:
    """Return query id -> cluster, where queries with a relevant document in common share one.

    So no document is relevant in two clusters: they are the connected components of queries and
    their relevant documents. A cluster is named after the smallest of its document ids, so that a
    query that is added renames none. A query without a relevant document is left out.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
    """
    relevant = qrels.filter(pc.greater(qrels.column("grade"), 0))
    columns = (relevant.column(name).to_pylist() for name in ("query_id", "document_id"))
    documents: dict[str, list[str]] = {}
    for query_id, document_id in zip(*columns, strict=True):
        documents.setdefault(query_id, []).append(document_id)
    parents: dict[str, str] = {}
    for found in documents.values():
        _unite(parents, found)
    return {q: f"{DOCUMENT}:{_root(parents, found[0])}" for q, found in documents.items()}


def with_shared_documents(counting: pa.Table, qrels: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """Take queries that share relevant documents together, in each split where that can be tested.

    It can where they fall into :data:`FEWEST` clusters or more, of which none holds more than
    :data:`LARGEST` of the queries. Queries that are clustered already, or share nothing, stay so.

    Args:
        counting: query_id, weight, split and cluster of every query.
        qrels: table of :data:`rag_assets.schemas.QRELS`.

    Returns:
        The table with the clusters; and split -> why its queries, which do depend on each other,
        are still taken one by one.
    """
    rows = counting.to_pylist()
    if any(row["cluster"] != row["query_id"] for row in rows):
        return counting, {}
    found, reasons = document_clusters(qrels), dict[str, str]()
    for split in sorted({row["split"] for row in rows}):
        own = [row for row in rows if row["split"] == split and row["query_id"] in found]
        sizes = Counter(found[row["query_id"]] for row in own if row["weight"])
        n_queries = sizes.total()
        if len(sizes) == n_queries:
            continue
        largest = max(sizes.values())
        if len(sizes) < FEWEST:
            made = f"make {len(sizes)} clusters, fewer than {FEWEST}"
            reasons[split] = f"{n_queries} queries, some of which share documents, {made}"
        elif largest > LARGEST * n_queries:
            of = f"{largest} of {n_queries} queries, more than {LARGEST:.0%},"
            reasons[split] = f"{of} share documents, directly or by way of others"
        else:
            for row in own:
                row["cluster"] = found[row["query_id"]]
    return pa.Table.from_pylist(rows, schema=counting.schema), reasons


def field_clusters(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, str]:
    """Return query id -> cluster, where queries with the same value of a field share one.

    A query without the field is left out.

    Raises:
        DataError: by way of ``fail``: no query has the field.
    """
    found = {query_id: fields.get(field) for query_id, fields in metadata.items()}
    clusters = {
        query_id: f"{QUERY}{field}:{_text(value)}"
        for query_id, value in found.items()
        if value is not None
    }
    if metadata and not clusters:
        names = sorted({name for fields in metadata.values() for name in fields})
        raise fail(f"no query has the field {field!r}; found: {', '.join(names) or 'none'}")
    return clusters


def _unite(parents: dict[str, str], documents: Sequence[str]) -> None:
    """Put documents into one tree, whose root is the smallest id."""
    roots = {_root(parents, document) for document in documents}
    smallest = min(roots)
    for root in roots:
        parents[root] = smallest


def _root(parents: dict[str, str], document: str) -> str:
    path = []
    while parents.setdefault(document, document) != document:
        path.append(document)
        document = parents[document]
    for passed in path:
        parents[passed] = document
    return document


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
