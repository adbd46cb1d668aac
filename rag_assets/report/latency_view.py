"""How fast each retriever is, as a table for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.rows import Row

_MEGA = 1_000_000
_WHOLE = 1000
"""From here on decimals are left out."""
_COLUMNS = {
    "queries_per_second": "queries\nper s",
    "p50_ms": "p50\nms",
    "p95_ms": "p95\nms",
    "p99_ms": "p99\nms",
    "known_p50_ms": "known\np50",
    "index_seconds": "index\ns",
    "index_bytes": "index\nMB",
}


def latency_view(experiment: str, rows: Sequence[Row]) -> RenderableType:
    """Return one row a retriever; a dash where nothing was measured.

    Args:
        experiment: its name.
        rows: as :func:`rag_assets.report.latency_rows.latency_rows` gives.
    """
    table = FittedTable(narrow=True)
    table.add_column("retriever", overflow="fold", min_width=8)
    for header in (*_COLUMNS.values(), "embed-\nded", "embed\ns"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        values = [_value(name, row[name]) for name in _COLUMNS]
        table.add_row(
            str(row["retriever"]), *values, _texts(row), _value("s", row["embed_seconds"])
        )
    timed = max((int(str(row["n_timed"])) for row in rows if row["n_timed"]), default=0)
    title = f"{experiment}: p50, p95 and p99 of {timed} single queries, one at a time"
    notes = (
        "p50, p95, p99: with all that a query needs, as measured; -: a part was not measured.\n"
        "known p50: with known vectors, in ms. embedded: new texts of all; the others were cached."
    )
    return Group(Text(title, style="bold"), table, "", notes, *_asked(rows))


_ASKED = {
    "rerank_seconds": "rerank s",
    "n_asked": "asked",
    "n_asked_before": "known",
    "api_tokens": "API tokens",
    "api_cost": "API cost",
    "query_cost": "cost a query",
}


def _asked(rows: Sequence[Row]) -> list[RenderableType]:
    """Return a table of what rerankers took and APIs counted; none where there is neither."""
    told = [row for row in rows if any(row.get(name) for name in _ASKED)]
    if not told:
        return []
    table = FittedTable()
    table.add_column("retriever", overflow="fold")
    for header in _ASKED.values():
        table.add_column(header, justify="right", no_wrap=True)
    for row in told:
        seconds, cost = _value("s", row["rerank_seconds"]), row["api_cost"]
        counts = [_count(row[name]) for name in ("n_asked", "n_asked_before", "api_tokens")]
        table.add_row(
            str(row["retriever"]), seconds, *counts, *map(_money, (cost, row["query_cost"]))
        )
    return ["", table]


def _money(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-"


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "-"


def _value(name: str, value: object) -> str:
    if not isinstance(value, int | float):
        return "-"
    if name == "index_bytes":
        value = value / _MEGA
    whole = name == "queries_per_second" or value >= _WHOLE
    return f"{value:,.0f}" if whole else f"{value:.2f}"


def _texts(row: Row) -> str:
    """Return how many texts were embedded, of how many."""
    if not isinstance(row["n_embedded"], int) or not isinstance(row["n_from_cache"], int):
        return "-"
    return f"{row['n_embedded']}/{row['n_embedded'] + row['n_from_cache']}"
