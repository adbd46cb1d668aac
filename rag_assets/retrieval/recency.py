"""Time-weighted retrieval: scores that fall with the age of the document.

With the age of a document in days, counted from ``now`` and at least 0, its factor is

    f = 1 - weight + weight * 2 ** (-age / half_life)

and a score s becomes ``s * f``; one below 0 becomes ``s / f``, since it must fall too. The decay by
half-lives is the exponential one of Li and Croft (Time-Based Language Models, CIKM 2003); no clock
is read. The factor is bounded below by ``1 - weight``, so that relevance is never outweighed
entirely. How the best k by these scores are found: :mod:`rag_assets.retrieval.unit_ranking`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
from pydantic import Field, field_validator

from rag_assets.options import Number, Options

NEWEST = "newest"
"""Stands under ``now`` for the newest date of the corpus."""

_DAYS = {"d": 1.0, "w": 7.0, "y": 365.25}
_HALF_LIFE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)[dwy]", re.ASCII)
_BEGINNING = re.compile(r"\d{4}(-\d{2})?", re.ASCII)


class Recency(Options):
    """How scores fall with the age of a document.

    ``field`` of a document's metadata holds its date; after ``half_life`` (``90d``, ``12w``,
    ``2y``) half of the share ``weight`` of a score is lost. ``now`` is a date, or ``newest``: that
    of the newest document.
    """

    field: str = Field(default="date", min_length=1)
    half_life: str
    weight: Annotated[Number, Field(ge=0, lt=1)] = 0.3
    now: str = NEWEST

    @field_validator("half_life", mode="before")
    @classmethod
    def _is_a_time(cls, value: object) -> object:
        match = _HALF_LIFE.fullmatch(value) if isinstance(value, str) else None
        if match is None or not float(match[1]):
            raise ValueError(
                f"must be a number of days, weeks or years, such as 90d, 12w or 2y; found {value!r}"
            )
        return value

    @field_validator("now", mode="before")
    @classmethod
    def _is_a_date(cls, value: object) -> object:
        """Keep a date as its text: YAML has a type for it."""
        text = value.isoformat() if isinstance(value, date) else value
        if text != NEWEST and (not isinstance(text, str) or date_of(text) is None):
            raise ValueError(f"must be newest, or a date such as 2026-01-31; found {text!r}")
        return text

    @property
    def half_life_days(self) -> float:
        """The half-life in days; a year has 365.25."""
        return float(self.half_life[:-1]) * _DAYS[self.half_life[-1]]

    def factor(self, age: float) -> float:
        """Return by what a score is multiplied; ``age`` is in days."""
        return 1 - self.weight + self.weight * math.exp2(-age / self.half_life_days)


def date_of(value: Any) -> datetime | None:  # noqa: ANN401 (any JSON)
    """Return the moment that a value of the metadata says, in UTC; None: it says none.

    It is a date, or a date and time, of ISO 8601, or its first ``YYYY`` or ``YYYY-MM``: the first
    day of these counts. A number is read by its text, as in filters.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    if _BEGINNING.fullmatch(text):
        text += "-01-01"[: len("2026-01-31") - len(text)]
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class Dates(NamedTuple):
    """The dates of a corpus.

    Attributes:
        known: document id -> its date; those without a readable one are not in it.
        undated: document id -> what stands there and is no date; None: nothing; sorted.
        fields: every field that a document has.
    """

    known: Mapping[str, datetime]
    undated: Mapping[str, Any]
    fields: frozenset[str]


def dates_of(documents: pa.Table, field: str) -> Dates:
    """Read the dates of all documents."""
    columns = (documents.column(name).to_pylist() for name in ("document_id", "metadata"))
    rows = {name: json.loads(metadata) for name, metadata in zip(*columns, strict=True)}
    values = {name: rows[name].get(field) or None for name in sorted(rows)}
    dates = {name: date_of(value) for name, value in values.items()}
    dated = {name: date for name, date in dates.items() if date is not None}
    undated = {name: value for name, value in values.items() if name not in dated}
    return Dates(dated, undated, frozenset().union(*rows.values()))


class Aged(NamedTuple):
    """A document's age in days, and its factor."""

    age: float
    factor: float


def ages(dates: Mapping[str, datetime], recency: Recency) -> dict[str, Aged]:
    """Return the age and the factor of each document that has a date; at least one has."""
    now = date_of(recency.now) or max(dates.values())
    days = {name: max((now - date) / timedelta(days=1), 0.0) for name, date in dates.items()}
    return {name: Aged(age, recency.factor(age)) for name, age in days.items()}
