"""What of a query counts besides its text: its answers, weight, split, cluster and filter.

The split says which queries are for choosing (dev) and which for reporting (test). A filter is an
object ``{field: value}`` or ``{field: [values]}``: the query may find those documents that have,
for every field, one of the values, or one of them in a list. Texts, numbers and truth values are
compared by their text, since a CSV file knows texts only: ``2024`` is ``"2024"``, and ``true`` is
``"true"``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import allowed_names
from rag_assets.schemas import COUNT, QUERY_FACTS, TAGS, TEXT, Column, TableSchema, column_values
from rag_assets.statistics.units import Counting
from rag_assets.store.canonical import canonical_json

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
    rows = column_values(queries, "query_id", "metadata")
    return {query_id: json.loads(text) for query_id, text in rows}


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
    return {
        query_id
        for query_id, tags, metadata in column_values(queries, "query_id", "tags", "metadata")
        if _DECLARED_TAG in tags
        or (_DECLARED_KEY in metadata and json.loads(metadata).get(_DECLARED_KEY) is True)
    }


def answerable_queries(facts: pa.Table, qrels: pa.Table | None) -> dict[str, bool | None]:
    """Return query id -> whether the labels say that it has an answer; None: they say nothing.

    True: a relevant document is labelled. False: none is, and the query is declared to have no
    answer, or a judgment has the grade 0. ``qrels`` is None where there are no labels.
    """
    labelled: dict[str, bool | None] = {
        query_id: False if declared else None
        for query_id, declared in column_values(facts, "query_id", "unanswerable")
    }
    if qrels is not None:
        for least, value in ((0, False), (1, True)):
            judged = qrels.filter(pc.greater_equal(qrels["grade"], least))
            ids = judged["query_id"].unique().to_pylist()
            labelled |= {query_id: value for query_id in ids if query_id in labelled}
    return labelled


def relevant_documents(qrels: pa.Table) -> dict[str, set[str]]:
    """Return query id -> the ids of its relevant documents; those without any are left out."""
    documents: dict[str, set[str]] = {}
    for query_id, document_id, grade in column_values(qrels, "query_id", "document_id", "grade"):
        if grade > 0:
            documents.setdefault(query_id, set()).add(document_id)
    return documents


def with_shared_documents(counting: Counting, qrels: pa.Table) -> Counting:
    """Add the relevant documents of each query, as ``documents``, for an allowance in tests.

    Queries that are clustered stay so: then their clusters stand for what they share.
    """
    if any(row["query_id"] != row["cluster"] for row in counting):
        return counting
    documents = relevant_documents(qrels)
    return [{**row, "documents": sorted(documents.get(row["query_id"], ()))} for row in counting]


FIELD = "filter"

QUERY_FILTERS = TableSchema(
    "query_filters",
    "one filter that queries have",
    ("query_set", "filter"),
    query_set=Column(TEXT, "for which a language model wrote it; empty: given by hand"),
    filter=Column(TEXT, "JSON object: field -> the values that match, as sorted texts"),
    query_ids=Column(TAGS, "the queries that have it, sorted"),
    document_ids=Column(TAGS, "the documents that match, sorted"),
)

DOCUMENT_FIELDS = TableSchema(
    "document_fields",
    "one value of one field that documents have",
    ("field", "value"),
    field=Column(TEXT, "name of the field in the metadata"),
    value=Column(TEXT, "the text by which filters compare it"),
    n_documents=Column(COUNT, "documents that have it"),
)

Filter = Mapping[str, tuple[str, ...]]
"""Field -> the texts of the values that match."""


def filters_by_hand(queries: pa.Table, fail: Fail) -> dict[str, Filter]:
    """Return query id -> its filter, for those that have one."""
    each = ((name, filter_of(name, row, fail)) for name, row in metadata_of(queries).items())
    return {query_id: query_filter for query_id, query_filter in each if query_filter}


def filter_table(
    query_set: str, by_query: Mapping[str, Filter], documents: pa.Table, fail: Fail
) -> pa.Table:
    """Return the different filters of queries, with the documents that match.

    A filter that is none, or asks for a field of no document, is an error by way of ``fail``.
    """
    query_ids: dict[str, list[str]] = defaultdict(list)
    for query_id, query_filter in by_query.items():
        text = canonical_json({name: list(values) for name, values in query_filter.items()})
        query_ids[text].append(query_id)
    if not query_ids:
        return QUERY_FILTERS.empty()
    filters = {text: json.loads(text) for text in sorted(query_ids)}
    matching = FilteredDocuments(documents, set().union(*filters.values()))
    rows: list[dict[str, object]] = []
    for text, fields in filters.items():
        for name in fields:
            if name not in matching.names:
                field = allowed_names(name, sorted(matching.names))
                raise fail(f"query {query_ids[text][0]!r}: no document has the field {field}")
        ids = {"query_ids": sorted(query_ids[text]), "document_ids": matching.of(fields)}
        rows.append({"query_set": query_set, "filter": text, **ids})
    return QUERY_FILTERS.from_rows(rows)


def document_fields(documents: pa.Table) -> pa.Table:
    """Return every value of every field that a filter can ask for, as :data:`DOCUMENT_FIELDS`."""
    counts: Counter[tuple[str, str]] = Counter()
    for metadata in documents.column("metadata").to_pylist():
        row = json.loads(metadata)
        counts.update({(name, text) for name in row for text in _texts(row[name])})
    return DOCUMENT_FIELDS.from_rows(
        [
            {"field": name, "value": text, "n_documents": counts[name, text]}
            for name, text in sorted(counts)
        ]
    )


def filter_of(query_id: str, fields: Fields, fail: Fail) -> Filter:
    """Return the filter of a query; empty where it has none."""
    given = fields.get(FIELD)
    if isinstance(given, str):  # as in a CSV file
        with suppress(ValueError):
            given = json.loads(given) if given.strip() else None
    try:
        return filter_values(given)
    except ValueError as error:
        raise fail(f"query {query_id!r} {error}") from error


def filter_values(given: object) -> Filter:
    """Return what the JSON value of a filter asks for; empty for null and an empty object.

    Raises:
        ValueError: it is no object of values and lists of values; "has ...; must be ...".
    """
    if given is None:
        return {}
    if not isinstance(given, dict):
        shape = "an object {field: value} or {field: [values]}"
        raise ValueError(f"has {_short(given)}; must be {shape}")
    values_by_field = {}
    for name, value in sorted(given.items()):
        texts = [_text(item) for item in (value if isinstance(value, list) else [value])]
        if not texts or None in texts:
            problem = f"has {_short(value)} under {name!r}; must be a text, a number, true or false"
            raise ValueError(f"{problem}, or a list of such")
        values_by_field[name] = tuple(sorted({text for text in texts if text is not None}))
    return values_by_field


def without_documents(filters: pa.Table) -> list[str]:
    """Return the queries whose filter no document matches."""
    rows = filters.to_pylist()
    return [query for row in rows if not row["document_ids"] for query in row["query_ids"]]


class FilteredDocuments:
    """The documents by their metadata; ``names`` are all fields that a document has."""

    def __init__(self, documents: pa.Table, fields: Collection[str]) -> None:
        """Look at the values of these fields only."""
        self.names: set[str] = set()
        self._ids: dict[tuple[str, str], set[str]] = defaultdict(set)
        for document_id, metadata in column_values(documents, "document_id", "metadata"):
            row = json.loads(metadata)
            self.names |= row.keys()
            for name in row.keys() & fields:
                for text in _texts(row[name]):
                    self._ids[name, text].add(document_id)

    def of(self, fields: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the documents that match, sorted."""
        each = (
            set[str]().union(*(self._ids.get((name, text), ()) for text in texts))
            for name, texts in fields.items()
        )
        return sorted(set.intersection(*each))


def _texts(value: Any) -> list[str]:  # noqa: ANN401 (any JSON)
    """Return what the value of a field is compared by: one text, or one for each item of a list."""
    texts = (_text(item) for item in (value if isinstance(value, list) else [value]))
    return [text for text in texts if text is not None]


def _text(value: Any) -> str | None:  # noqa: ANN401 (any JSON)
    """Return what a value is compared by; None: it cannot be compared."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."
