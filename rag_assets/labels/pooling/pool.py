"""The pool: every unit that some retriever found near the top, once, and not judged yet.

Depth-k pooling as in TREC (Voorhees and Harman, "TREC: Experiment and Evaluation in Information
Retrieval", MIT Press 2005, chapter 2): the union of the first k ranks of all runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from rag_assets.chunking.chunker import trimmed

Spans = Mapping[str, tuple[str, int, int]]
"""Unit id -> its document and its span in the text of that document."""

MAX_UNION_CHARACTERS = 32_000
"""Characters of several overlapping units that are judged together; a cell takes them."""

Key = tuple[str, str, int | None, int | None]
"""A query, a document and a span of it; without a span the whole document."""


class PooledUnit(NamedTuple):
    """A unit to be judged for a query: the span ``[start, end)`` of a document's text."""

    query_id: str
    document_id: str
    start: int
    end: int

    @property
    def length(self) -> int:
        """Characters of the span."""
        return self.end - self.start

    def shares_half(self, other: PooledUnit) -> bool:
        """Return whether two spans of one document share half of the shorter one."""
        shared = min(self.end, other.end) - max(self.start, other.start)
        return shared > 0 and 2 * shared >= min(self.length, other.length)


PLACE = PooledUnit._fields
"""Columns of a table in which a unit stands."""


class Judgment(NamedTuple):
    """A judged unit, its grade, who judged it, and where that was read."""

    unit: PooledUnit
    grade: int
    source: str
    line: int


class SamePassages:
    """Finds the items that are the same passage as a span: one holds half of the other."""

    def __init__(self, items: Sequence[PooledUnit]) -> None:
        """Index items by question and document."""
        self._items = items
        self._places: dict[tuple[str, str], list[int]] = {}
        for number, item in enumerate(items):
            self._places.setdefault(item[:2], []).append(number)

    def numbers(self, span: PooledUnit) -> list[int]:
        """Return the numbers of the items that are the same passage."""
        items = ((number, self._items[number]) for number in self._places.get(span[:2], ()))
        return [number for number, item in items if span == item or span.shares_half(item)]


def units_in(table: pa.Table) -> list[PooledUnit]:
    """Return the unit of each row of a table with the columns :data:`PLACE`."""
    return list(map(PooledUnit, *(table[name].to_pylist() for name in PLACE)))


def texts_of(documents: pa.Table) -> dict[str, str]:
    """Return document -> its text; ``documents`` is a table of ``schemas.DOCUMENTS``."""
    ids, texts = (documents[name].to_pylist() for name in ("document_id", "text"))
    return dict(zip(ids, texts, strict=True))


def without_outer_blanks(pooled: Iterable[PooledUnit], documents: pa.Table) -> set[PooledUnit]:
    """Return units without the white space at their ends, which nobody judges.

    So a quote is what people read, and two chunkings that differ in blanks give one unit. A unit
    that is blank stays as it is.
    """
    texts = texts_of(documents)
    units = set()
    for unit in pooled:
        start, end = trimmed(texts[unit.document_id], unit.start, unit.end)
        units.add(unit._replace(start=start, end=end) if end > start else unit)
    return units


def merged(pooled: Iterable[PooledUnit]) -> set[PooledUnit]:
    """Return one unit for those of a query and a document that overlap: their union.

    Several chunkings find the same passage, and nobody should read it once for each. A union that
    would be longer than :data:`MAX_UNION_CHARACTERS` is not made, so that a chain of overlapping
    windows does not become the whole document; what lies inside another unit is always part of it.
    """
    units: list[PooledUnit] = []
    for unit in sorted(pooled, key=lambda unit: (*unit[:3], -unit.end)):
        if units and _belongs_to(unit, units[-1]):
            units[-1] = units[-1]._replace(end=max(units[-1].end, unit.end))
        else:
            units.append(unit)
    return set(units)


def _belongs_to(unit: PooledUnit, last: PooledUnit) -> bool:
    """Return whether a unit that begins in ``last``, or after it, is to be judged with it."""
    if unit[:2] != last[:2] or unit.start >= last.end:
        return unit == last
    return unit.end <= max(last.end, last.start + MAX_UNION_CHARACTERS)


def in_blind_order(
    pooled: Iterable[PooledUnit], query_ids: Iterable[str], seed: int = 0
) -> list[PooledUnit]:
    """Return units query by query, within one in an order by hashes that tells nothing of ranks."""
    place = {query_id: number for number, query_id in enumerate(query_ids)}

    def key(unit: PooledUnit) -> tuple[int, bytes]:
        text = "\0".join([str(seed), *map(str, unit)])
        return place[unit.query_id], hashlib.sha256(text.encode()).digest()

    return sorted(pooled, key=key)


def spans_of(units: pa.Table) -> Spans:
    """Return the spans of a table with ``unit_id``, ``document_id``, ``start`` and ``end``."""
    names = ("unit_id", "document_id", "start", "end")
    columns = (units.column(name).to_pylist() for name in names)
    return {item: (name, start, end) for item, name, start, end in zip(*columns, strict=True)}
