"""The context that a question is answered from: which units, in which order.

What a retriever hands over is put together with an order and a budget. The others are for
comparison: ``gold`` is all units that hold evidence, so what is lost with it no retriever could
mend; ``random`` is as many units as a retriever returns, whatever they say.

Order ``edges`` alternates between the two ends, the best unit first, the second last: models read
the middle of a long context least (Liu et al., "Lost in the Middle", TACL 12, 2024).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.schemas import ANSWER_CONTEXTS, PASSAGE_LISTS, PASSAGES
from rag_assets.store.canonical import fingerprint

Unit = dict[str, Any]
"""A row of a table of units: its id, its place, its tokens and the digest of its text."""


def passages(run: pa.Table, contexts: pa.Table, column: str) -> pa.Table:
    """Return what a run hands over, as text.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`.
        contexts: table of :data:`rag_assets.schemas.RETRIEVER_CONTEXTS` of its retriever.
        column: the column of the run that names the text, see
            :func:`rag_assets.evaluation.contexts.context_column`.

    Returns:
        Table of :data:`rag_assets.schemas.PASSAGES`, in the order of the run.
    """
    places = pc.index_in(run[column], value_set=contexts["context_id"].combine_chunks())
    units = contexts.take(places).rename_columns(["unit_id", *contexts.column_names[1:]])
    table = units.add_column(0, "rank", run["rank"]).add_column(0, "query_id", run["query_id"])
    return PASSAGES.check(table.cast(PASSAGES.arrow()).combine_chunks())


def passage_lists(cells: Mapping[int, pa.Table], query_ids: Sequence[str]) -> pa.Table:
    """Return how much is handed over for each query at each cut-off, and a hash of it.

    Args:
        cells: cut-off -> table of :data:`rag_assets.schemas.PASSAGES`.
        query_ids: all queries.
    """
    rows: list[dict[str, object]] = []
    for top_k, table in cells.items():
        by_query = units_by_query(table)
        for query_id in query_ids:
            units = by_query.get(query_id, [])
            rows.append(
                {
                    "query_id": query_id,
                    "top_k": top_k,
                    "n_passages": len(units),
                    "n_tokens": sum(unit["n_tokens"] for unit in units),
                    "digest": fingerprint(units),
                }
            )
    return PASSAGE_LISTS.from_rows(sorted(rows, key=lambda row: (row["query_id"], row["top_k"])))


def units_by_query(table: pa.Table) -> dict[str, list[Unit]]:
    """Return query id -> its rows, without the id, in the order of the table."""
    rows = table.to_pylist()
    return {
        query_id: [{name: v for name, v in row.items() if name != "query_id"} for row in own]
        for query_id, own in groupby(rows, key=lambda row: row["query_id"])
    }


def within(units: Sequence[Unit], budget: int | None) -> list[Unit]:
    """Return the first units whose tokens are within a budget; the first too many ends them."""
    if budget is None:
        return list(units)
    ends = np.cumsum([unit["n_tokens"] for unit in units])
    return list(units[: int(np.searchsorted(ends, budget, side="right"))])


def ordered(units: Sequence[Unit], order: str) -> list[Unit]:
    """Return units, which come best first, as they stand in a context."""
    if order == "reversed":
        return list(reversed(units))
    if order == "edges":
        return [*units[::2], *reversed(units[1::2])]
    return list(units)


def ranked_contexts(table: pa.Table, order: str, budget: int | None) -> pa.Table:
    """Return the contexts that are made of what a retriever hands over.

    Args:
        table: of :data:`rag_assets.schemas.PASSAGES`.
        order: ``rank``, ``reversed`` or ``edges``.
        budget: most tokens of a context; None: any number.

    Returns:
        Table of :data:`rag_assets.schemas.ANSWER_CONTEXTS`; a query without a unit has no row.
    """
    return _table(units_by_query(table), lambda units: ordered(within(units, budget), order))


def gold_contexts(relevant: pa.Table, units: pa.Table, budget: int | None) -> pa.Table:
    """Return the units that hold evidence, by document and place.

    Args:
        relevant: table of :data:`rag_assets.schemas.RELEVANT_UNITS`; those of positive grade count.
        units: unit_id, document_id, start, end, n_tokens and text_digest of every unit.
        budget: most tokens of a context; None: any number.
    """
    by_id = {unit["unit_id"]: {"rank": None, **unit} for unit in units.to_pylist()}
    is_good = pc.and_(pc.greater(relevant["grade"], 0), pc.is_valid(relevant["unit_id"]))
    good = relevant.filter(is_good)
    found: dict[str, dict[str, Unit]] = {}
    for query_id, unit_id in zip(
        good["query_id"].to_pylist(), good["unit_id"].to_pylist(), strict=True
    ):
        found.setdefault(query_id, {})[unit_id] = by_id[unit_id]
    in_order = {query_id: sorted(own.values(), key=_place) for query_id, own in found.items()}
    return _table(in_order, lambda own: within(own, budget))


def random_contexts(
    counts: Mapping[str, int], units: pa.Table, seed: int, budget: int | None
) -> pa.Table:
    """Return units that are drawn without replacement, each question by itself.

    Args:
        counts: query id -> how many units.
        units: table of :data:`rag_assets.schemas.RETRIEVER_CONTEXTS`, sorted by id.
        seed: of all draws; a draw depends on it, on the question's id and on the units.
        budget: most tokens of a context; None: any number.
    """
    names = ["unit_id", *units.column_names[1:]]
    rows = [{"rank": None, **row} for row in units.rename_columns(names).to_pylist()]
    drawn = {
        query_id: [rows[i] for i in _draw(f"{seed}:{query_id}", len(rows), count)]
        for query_id, count in counts.items()
    }
    return _table(drawn, lambda own: within(own, budget))


def _draw(name: str, n: int, count: int) -> list[int]:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
    generator = np.random.Generator(np.random.PCG64(seed))
    return list(generator.choice(n, size=min(count, n), replace=False).tolist())


def _place(unit: Unit) -> tuple[str, int, int, str]:
    return unit["document_id"], unit["start"], unit["end"], unit["unit_id"]


def _table(
    by_query: Mapping[str, list[Unit]], chosen: Callable[[list[Unit]], list[Unit]]
) -> pa.Table:
    rows = [
        {"query_id": query_id, "position": position, **unit}
        for query_id in sorted(by_query)
        for position, unit in enumerate(chosen(by_query[query_id]), 1)
    ]
    return ANSWER_CONTEXTS.from_rows(rows)
