"""The pool: every unit that some retriever found near the top, once, and not judged yet.

Depth-k pooling as in TREC (Voorhees and Harman, "TREC: Experiment and Evaluation in Information
Retrieval", MIT Press 2005, chapter 2): the union of the first k ranks of all runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.pieces import trimmed

Spans = Mapping[str, tuple[str, int, int]]
"""Unit id -> its document and its span in the text of that document."""


Pair = tuple[str, str]
"""A query id and a unit id."""


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


def pool(
    runs: Mapping[str, pa.Table],
    units: Mapping[str, Spans],
    judged: Mapping[str, Collection[Pair]],
    *,
    depth: int,
) -> set[PooledUnit]:
    """Return the unjudged units of the first ``depth`` ranks of all runs, those that have a span.

    Args:
        runs: retriever -> table of :data:`rag_assets.schemas.RUNS`.
        units: retriever -> the spans of its units.
        judged: retriever -> its (query, unit) pairs that have a judgment, of any grade.
        depth: how many ranks of each run.
    """
    pooled: set[PooledUnit] = set()
    for retriever, run in runs.items():
        top = run.filter(pc.less_equal(run.column("rank"), depth))
        judged_units = judged.get(retriever, ())
        ids = (top.column(name).to_pylist() for name in ("query_id", "unit_id"))
        for pair in zip(*ids, strict=True):
            if pair not in judged_units and pair[1] in units[retriever]:
                pooled.add(PooledUnit(pair[0], *units[retriever][pair[1]]))
    return pooled


def without_outer_blanks(pooled: Iterable[PooledUnit], documents: pa.Table) -> set[PooledUnit]:
    """Return units without the white space at their ends, which nobody judges.

    So a quote is what people read, and two chunkings that differ in blanks give one unit. A unit
    that is blank stays as it is.

    Args:
        pooled: the units.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
    """
    names = ("document_id", "text")
    texts = dict(zip(*(documents.column(name).to_pylist() for name in names), strict=True))
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
    units: set[PooledUnit] = set()
    last: PooledUnit | None = None
    for unit in sorted(pooled, key=lambda unit: (*unit[:3], -unit.end)):
        if last is not None and _belongs_to(unit, last):
            last = last._replace(end=max(last.end, unit.end))
            continue
        if last is not None:
            units.add(last)
        last = unit
    return units | ({last} if last is not None else set())


def _belongs_to(unit: PooledUnit, last: PooledUnit) -> bool:
    """Return whether a unit that begins in ``last``, or after it, is to be judged with it."""
    if unit[:2] != last[:2] or unit.start >= last.end:
        return unit == last
    return unit.end <= max(last.end, last.start + MAX_UNION_CHARACTERS)


def in_blind_order(
    pooled: Iterable[PooledUnit], query_ids: Iterable[str], seed: int = 0
) -> list[PooledUnit]:
    """Return units query by query, within a query in an order that tells nothing about ranks.

    Args:
        pooled: the units.
        query_ids: all queries, in the order in which they are to be judged.
        seed: another one gives another order; the same one always the same.
    """
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


class Judgment(NamedTuple):
    """A judged unit, its grade, who judged it, and where that was read."""

    unit: PooledUnit
    grade: int
    source: str
    line: int
