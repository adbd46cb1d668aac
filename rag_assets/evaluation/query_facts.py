"""What of a query counts besides its text: its answers, its weight, its split, its cluster."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

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
) -> pa.Table:
    """Return the table of :data:`rag_assets.schemas.QUERY_FACTS`.

    What a mapping leaves out is no answer, weight 1, split ``all``, or a cluster of its own.
    """
    rows: list[dict[str, object]] = [
        {
            "query_id": query_id,
            "answers": list(answers.get(query_id, ())),
            "weight": weights.get(query_id, 1.0),
            "split": splits.get(query_id, ALL),
            "cluster": clusters.get(query_id, query_id),
        }
        for query_id in query_ids
    ]
    return QUERY_FACTS.from_rows(rows)


def answers_of(fields: Fields) -> list[str] | None:
    """Return the different answers under ``answers``, else ``answer``; None: not readable.

    A string or a number is one answer, a list holds several; blank ones are none.
    """
    found = fields["answers"] if fields.get("answers") is not None else fields.get("answer")
    listed = found if isinstance(found, list) else [] if found is None else [found]
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
