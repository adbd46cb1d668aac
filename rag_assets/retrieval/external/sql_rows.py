"""Rows of a query as hits: columns are named as the fields of a hit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import AfterValidator, Field

from rag_assets.retrieval.external.answer_paths import FIELDS, Unusable, hit_of
from rag_assets.retrieval.external.base import Hit

Setting = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)] | float | str
"""Value of a setting of a database."""

FORMS = "`id`; `text`; or `document_id`, `start` and `end`"


class Rows(NamedTuple):
    """What a query gives.

    Attributes:
        columns: their names.
        rows: one value a column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def hits_in(answer: Rows, k: int) -> list[Hit]:
    """Return the first ``k`` rows as hits.

    Raises:
        Unusable: the columns are not those of a hit, or a value is none for its column.
    """
    _require_hits(answer.columns)
    names = {name: name for name in answer.columns}
    return [
        hit_of(dict(zip(answer.columns, map(_plain, row), strict=True)), names, rank)
        for rank, row in enumerate(answer.rows[:k], 1)
    ]


def _require_hits(columns: Sequence[str]) -> None:
    there = set(columns)
    unknown = [name for name in columns if name not in FIELDS]
    if unknown or len(there) < len(columns):
        twice = [name for name in columns if list(columns).count(name) > 1]
        problem = f"'{unknown[0]}', which no hit has" if unknown else f"'{twice[0]}' twice"
        raise Unusable(f"the query returns the column {problem}; allowed: {', '.join(FIELDS)}")
    is_span = {"document_id", "start", "end"} <= there and "text" not in there
    if ["id" in there, "text" in there, is_span].count(True) != 1:
        named = ", ".join(columns)
        raise Unusable(f"the query returns the columns {named}; a hit is one of three: {FORMS}")


def _plain(value: object) -> object:
    """Return a value of a database as JSON would have it."""
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if whole else float(value)
    return str(value) if isinstance(value, UUID) else value


def _checked_settings(settings: dict[str, Setting]) -> dict[str, Setting]:
    for name in settings:
        if not all(part.isidentifier() and part.isascii() for part in name.split(".")):
            raise ValueError(f"'{name}' is not the name of a setting")
    return settings


Settings = Annotated[dict[str, Setting], AfterValidator(_checked_settings)]
"""Settings of a database by their names, such as ``hnsw.ef_search``."""
