"""All cells of an experiment in one table, ranked by the primary metric."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts import ALL, DEV, TEST
from rag_assets.schemas import LEADERBOARD

TIE = 1e-12
"""Two means nearer than this are one value; the last bits of a sum carry no meaning."""

SPLITS = (ALL, TEST, DEV)
"""The order of the splits; the first that a board has is the one to show."""


def leaderboard(
    summaries: Mapping[str, pa.Table], primary: Metric, tuned: Collection[str] = ()
) -> pa.Table:
    """Return one row a cell and split; test before dev, and within a split the best first.

    A retriever whose parameters were chosen on dev has an advantage there: on dev it comes last,
    without a place.

    Args:
        summaries: retriever -> table of :data:`rag_assets.schemas.METRICS_SUMMARY`.
        primary: the metric by which retrievers are placed. One without its cell comes last.
        tuned: retrievers whose parameters were chosen on dev.
    """
    tables: list[pa.Table] = []
    for split in SPLITS:
        parts = {name: _of_split(table, split) for name, table in summaries.items()}
        parts = {name: part for name, part in parts.items() if part.num_rows}
        tables += _placed(parts, primary, tuned if split == DEV else ())
    if not tables:
        return LEADERBOARD.empty()
    return LEADERBOARD.check(pa.concat_tables(tables, promote_options="default").combine_chunks())


def splits_of(board: pa.Table) -> list[str]:
    """Return the splits of a leaderboard, the one to show first."""
    found = set(board.column("split").to_pylist())
    return [split for split in SPLITS if split in found]


def _of_split(table: pa.Table, split: str) -> pa.Table:
    return table.filter(pc.equal(table.column("split"), split))


def _placed(
    parts: Mapping[str, pa.Table], primary: Metric, unplaced: Collection[str]
) -> Sequence[pa.Table]:
    values = {name: _value(table, primary) for name, table in parts.items()}
    ranked = {name: value for name, value in values.items() if name not in unplaced}
    tables = []
    for name in sorted(values, key=lambda name: (name not in ranked, -values[name], name)):
        table = parts[name]
        better = sum(other > values[name] + TIE for other in ranked.values())
        position = 1 + better if name in ranked else None
        lead = {
            "position": pa.array([position] * table.num_rows, pa.int32()),
            "retriever": pa.array([name] * table.num_rows, pa.string()),
        }
        tables.append(pa.table({**lead, **{c: table.column(c) for c in table.column_names}}))
    return tables


def _value(table: pa.Table, primary: Metric) -> float:
    rows = [row for row in table.to_pylist() if row["top_k"] == primary.cutoff]
    value = rows[0].get(primary.column) if rows else None
    return float("-inf") if value is None else float(value)
