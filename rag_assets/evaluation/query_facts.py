"""What of a query counts besides its text: its answers, its weight, its split, its cluster.

The split says which queries are for choosing (dev) and which for reporting (test).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.schemas import QUERY_FACTS

ALL, DEV, TEST = "all", "dev", "test"
"""The splits: all queries, those for choosing, those for reporting."""


LARGEST_WEIGHT = 2.0**53
"""Up to here every whole number is a float of its own."""


Fields = Mapping[str, Any]
"""The metadata of one query."""


Fail = Callable[[str], Exception]
"""Makes the error for a problem; it adds where the experiment asks for the field."""

_NUMBER = re.compile(r"\+?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_DECLARED_TAG, _DECLARED_KEY = "unanswerable", "is_impossible"
DOCUMENT = "document"
QUERY = "query."
NONE = "none"


def metadata_of(queries: pa.Table) -> dict[str, Fields]:
    """Return query id -> its fields, of a table of :data:`rag_assets.schemas.QUERIES`."""
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
    """Return the table of :data:`rag_assets.schemas.QUERY_FACTS`.

    What a mapping leaves out is no answer, weight 1, split ``all``, or a cluster of its own.
    ``unanswerable`` has the ids that :func:`declared_unanswerable` returns.
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

    Args:
        queries: table of :data:`rag_assets.schemas.QUERIES`; its texts are not read.
    """
    return {
        query["query_id"]
        for query in queries.select(["query_id", "tags", "metadata"]).to_pylist()
        if _DECLARED_TAG in query["tags"]
        or (
            _DECLARED_KEY in query["metadata"]
            and json.loads(query["metadata"]).get(_DECLARED_KEY) is True
        )
    }


def answerable_queries(facts: pa.Table, qrels: pa.Table | None) -> dict[str, bool | None]:
    """Return query id -> whether the labels say that it has an answer; None: they say nothing.

    True: a relevant document is labelled. False: none is, and the query is declared to have no
    answer, or a judgment has the grade 0.

    Args:
        facts: ``query_id`` and ``unanswerable`` of :data:`rag_assets.schemas.QUERY_FACTS`.
        qrels: table of :data:`rag_assets.schemas.QRELS`; None: there are no labels.
    """
    columns = (facts[name].to_pylist() for name in ("query_id", "unanswerable"))
    said: dict[str, bool | None] = {
        query_id: False if declared else None for query_id, declared in zip(*columns, strict=True)
    }
    if qrels is not None:
        judged = qrels.filter(pc.greater_equal(qrels["grade"], 0))
        relevant = judged.filter(pc.greater(judged["grade"], 0))
        for table, value in ((judged, False), (relevant, True)):
            ids = table["query_id"].unique().to_pylist()
            said |= {query_id: value for query_id in ids if query_id in said}
    return said


def answers_of(fields: Fields) -> list[str] | None:
    """Return the different answers under ``answers``, else ``answer``; None: not readable.

    A string or a number is one answer, a list holds several; blank ones are none.
    """
    raw = fields["answers"] if fields.get("answers") is not None else fields.get("answer")
    listed = raw if isinstance(raw, list) else [] if raw is None else [raw]
    texts = []
    for value in listed:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        text = value if isinstance(value, str) else json.dumps(value)
        if text.strip():
            texts.append(text)
    return list(dict.fromkeys(texts))


def field_weights(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, float]:
    """Return query id -> the number in a field; a text that is a number is taken as one.

    Raises:
        DataError: by way of ``fail``: in some query it is absent, or not a positive number.
    """
    weights, problems = {}, []
    for query_id, fields in metadata.items():
        weight = _number(fields.get(field))
        if weight is not None and 0 < weight <= LARGEST_WEIGHT:
            weights[query_id] = weight
        else:
            allowed = "must be a positive number, at most 2^53"
            problems.append(f"{described(query_id, fields, field)}; {allowed}")
    if problems:
        raise fail(first_of(problems))
    return weights


def _number(value: object) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def described(query_id: str, fields: Fields, field: str) -> str:
    """Return ``query 'q1' has fold 'tset'``, or ``query 'q1' has no field 'fold'``."""
    if fields.get(field) is None:
        return f"query {query_id!r} has no field {field!r}"
    value = json.dumps(fields[field], ensure_ascii=False)
    return f"query {query_id!r} has {field!r}: {value if len(value) <= 60 else value[:60] + '...'}"


def first_of(problems: Sequence[str]) -> str:
    """Return the first problem, and in how many other queries there is one."""
    more = len(problems) - 1
    others = "" if not more else f" (and {more} more {'query' if more == 1 else 'queries'})"
    return f"{problems[0]}{others}"


def document_clusters(qrels: pa.Table) -> dict[str, str]:
    """Return query id -> cluster, where queries with a relevant document in common share one.

    So no document is relevant in two clusters: they are the connected components of queries and
    their relevant documents. A cluster is named after the smallest of its document ids, so that a
    query that is added renames none. A query without a relevant document is left out.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
    """
    documents = relevant_documents(qrels)
    parents: dict[str, str] = {}
    for names in documents.values():
        _unite(parents, names)
    return {q: f"{DOCUMENT}:{_root(parents, min(names))}" for q, names in documents.items()}


def with_shared_documents(counting: pa.Table, qrels: pa.Table) -> pa.Table:
    """Add the relevant documents of each query, as ``documents``, for an allowance in tests.

    Queries that are clustered stay so: then their clusters stand for what they share.

    Args:
        counting: query_id, weight, split and cluster of every query.
        qrels: table of :data:`rag_assets.schemas.QRELS`.
    """
    columns = (counting[name].to_pylist() for name in ("query_id", "cluster"))
    if any(query_id != cluster for query_id, cluster in zip(*columns, strict=True)):
        return counting
    documents = relevant_documents(qrels)
    names = [sorted(documents.get(one, ())) for one in counting["query_id"].to_pylist()]
    return counting.append_column("documents", pa.array(names, pa.list_(pa.string())))


def relevant_documents(qrels: pa.Table) -> dict[str, set[str]]:
    """Return query id -> the ids of its relevant documents; those without any are left out.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
    """
    relevant = qrels.filter(pc.greater(qrels.column("grade"), 0))
    columns = (relevant.column(name).to_pylist() for name in ("query_id", "document_id"))
    documents: dict[str, set[str]] = {}
    for query_id, document_id in zip(*columns, strict=True):
        documents.setdefault(query_id, set()).add(document_id)
    return documents


def field_clusters(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, str]:
    """Return query id -> cluster, where queries with the same value of a field share one.

    A query without the field is left out.

    Raises:
        DataError: by way of ``fail``: no query has the field.
    """
    values = {query_id: fields.get(field) for query_id, fields in metadata.items()}
    clusters = {
        query_id: f"{QUERY}{field}:{_text(value)}"
        for query_id, value in values.items()
        if value is not None
    }
    if metadata and not clusters:
        names = sorted({name for fields in metadata.values() for name in fields})
        raise fail(f"no query has the field {field!r}; found: {', '.join(names) or 'none'}")
    return clusters


def _unite(parents: dict[str, str], documents: Collection[str]) -> None:
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


def hashed_splits(clusters: Mapping[str, str], dev: float, seed: int, fail: Fail) -> dict[str, str]:
    """Return query id -> ``dev`` or ``test``, by a hash of its cluster.

    The first 64 bits of the SHA-256 of ``<seed>:<cluster>``, as a fraction of 2^64, are less than
    ``dev``: the query is in dev. So a query that is added or goes moves no other, and a cluster is
    never cut. The shares are met in expectation only.

    Args:
        clusters: query id -> its cluster; a query of its own has its id.
        dev: share of the clusters that go to dev, in (0, 1).
        seed: another one deals them anew.
        fail: makes the error.

    Raises:
        DataError: by way of ``fail``: a side has no query.
    """
    splits = {q: DEV if _fraction(c, seed) < dev else TEST for q, c in clusters.items()}
    how = f"dev: {dev:g} and seed: {seed} put all {len(splits)} queries on the other side"
    _check_sides(splits.values(), f"{how}; choose another share or seed", fail)
    return splits


def field_splits(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, str]:
    """Return query id -> the value of a field, which must be ``dev`` or ``test``.

    Raises:
        DataError: by way of ``fail``: it is absent or another value somewhere, or a side is empty.
    """
    problems = [
        f"{described(query_id, fields, field)}; must be {DEV} or {TEST}"
        for query_id, fields in metadata.items()
        if fields.get(field) not in (DEV, TEST)
    ]
    if problems:
        raise fail(first_of(problems))
    splits = {query_id: str(fields[field]) for query_id, fields in metadata.items()}
    _check_sides(splits.values(), f"all {len(splits)} have the other value of {field!r}", fail)
    return splits


def cut_clusters(clusters: Mapping[str, str], splits: Mapping[str, str]) -> list[str]:
    """Return the clusters that have queries in dev and in test, sorted."""
    sides: dict[str, set[str]] = {}
    for query_id, cluster in clusters.items():
        sides.setdefault(cluster, set()).add(splits[query_id])
    return sorted(cluster for cluster, cluster_splits in sides.items() if len(cluster_splits) > 1)


def _fraction(cluster: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}:{cluster}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _check_sides(sides: Collection[str], why: str, fail: Fail) -> None:
    for side in (DEV, TEST):
        if side not in sides:
            raise fail(f"no query is in {side}: {why}")
