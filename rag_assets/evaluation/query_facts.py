"""What of a query counts besides its text: its answers, its weight, its split, its cluster.

The split says which queries are for choosing (dev) and which for reporting (test).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.schemas import QUERY_FACTS

ALL, DEV, TEST = "all", "dev", "test"
"""The splits: all queries, those for choosing, those for reporting."""

DOCUMENT, QUERY, NONE = "document", "query.", "none"
"""What ``statistics.cluster`` may be: ``query.`` goes before the name of a field."""

Fields = Mapping[str, Any]
"""The metadata of one query."""

Fail = Callable[[str], Exception]
"""Makes the error for a problem; it adds where the experiment asks for the field."""

_DECLARED_TAG, _DECLARED_KEY = "unanswerable", "is_impossible"


def metadata_of(queries: pa.Table) -> dict[str, Fields]:
    """Return query id -> its fields."""
    columns = (queries.column(name).to_pylist() for name in ("query_id", "metadata"))
    return {query_id: json.loads(text) for query_id, text in zip(*columns, strict=True)}


def facts_table(
    query_ids: Sequence[str],
    answers: Mapping[str, Sequence[str]],
    weights: Mapping[str, float],
    splits: Mapping[str, str],
    clusters: Mapping[str, str],
    unanswerable: Collection[str] = (),
) -> pa.Table:
    """Return the query facts of some queries.

    What a mapping leaves out is no answer, weight 1, split ``all``, or a cluster of its own.
    """
    rows: list[dict[str, object]] = [
        {
            "query_id": query_id,
            "answers": list(answers.get(query_id, ())),
            "weight": weights.get(query_id, 1.0),
            "split": splits.get(query_id, ALL),
            "cluster": clusters.get(query_id, query_id),
            "unanswerable": query_id in unanswerable,
        }
        for query_id in query_ids
    ]
    return QUERY_FACTS.from_rows(rows)


def declared_unanswerable(queries: pa.Table) -> set[str]:
    """Return the ids of the queries that say themselves that they have no answer.

    They have the tag ``unanswerable``, or ``is_impossible: true`` in their metadata, as in SQuAD.
    """
    columns = (queries[name].to_pylist() for name in ("query_id", "tags", "metadata"))
    return {
        query_id
        for query_id, tags, metadata in zip(*columns, strict=True)
        if _DECLARED_TAG in tags
        or (_DECLARED_KEY in metadata and json.loads(metadata).get(_DECLARED_KEY) is True)
    }


def answerable_queries(facts: pa.Table, qrels: pa.Table | None) -> dict[str, bool | None]:
    """Return query id -> whether the labels say that it has an answer; None: they say nothing.

    True: a relevant document is labelled. False: none is, and the query is declared to have no
    answer, or a judgment has the grade 0. ``qrels`` is None where there are no labels.
    """
    columns = (facts[name].to_pylist() for name in ("query_id", "unanswerable"))
    said: dict[str, bool | None] = {
        query_id: False if declared else None for query_id, declared in zip(*columns, strict=True)
    }
    if qrels is not None:
        for least, value in ((0, False), (1, True)):
            judged = qrels.filter(pc.greater_equal(qrels["grade"], least))
            ids = judged["query_id"].unique().to_pylist()
            said |= {query_id: value for query_id in ids if query_id in said}
    return said


def relevant_documents(qrels: pa.Table) -> dict[str, set[str]]:
    """Return query id -> the ids of its relevant documents; those without any are left out."""
    relevant = qrels.filter(pc.greater(qrels["grade"], 0))
    columns = (relevant[name].to_pylist() for name in ("query_id", "document_id"))
    documents: dict[str, set[str]] = {}
    for query_id, document_id in zip(*columns, strict=True):
        documents.setdefault(query_id, set()).add(document_id)
    return documents


def with_shared_documents(counting: pa.Table, qrels: pa.Table) -> pa.Table:
    """Add the relevant documents of each query, as ``documents``, for an allowance in tests.

    Queries that are clustered stay so: then their clusters stand for what they share.
    """
    if counting["query_id"].to_pylist() != counting["cluster"].to_pylist():
        return counting
    documents = relevant_documents(qrels)
    names = [sorted(documents.get(name, ())) for name in counting["query_id"].to_pylist()]
    return counting.append_column("documents", pa.array(names, pa.list_(pa.string())))
