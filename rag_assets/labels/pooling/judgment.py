"""One judged unit, whoever judged it."""

from __future__ import annotations

from typing import NamedTuple

from rag_assets.labels.pooling.pool import PooledUnit

Key = tuple[str, str, int | None, int | None]
"""A query, a document and a span of it; without a span the whole document."""


class Judgment(NamedTuple):
    """A judged unit, its grade, who judged it, and where that was read."""

    unit: PooledUnit
    grade: int
    source: str
    line: int
