"""Where evidence was found or lost, as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_assets.evaluation.attribution import FOUND, PLACES
from rag_assets.evaluation.query_facts import ALL
from rag_assets.plain_text import one_line
from rag_assets.report.attribution_rows import RANK_IN
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.rows import Row

HEADERS = {
    "found": "found",
    "cut_at_k": "cut\nat k",
    "lost_in_reranking": "lost in\nrerank.",
    "lost_in_fusion": "lost in\nfusion",
    "below_candidates": "below\ncand.",
    "no_chunk": "no\nchunk",
    "not_in_corpus": "not in\ncorpus",
}
_WITH_SHARES = 5
"""So many places fit 80 columns with their shares."""


def attribution_view(experiment: str, rows: Sequence[Row], by: str | None = None) -> RenderableType:
    """Return one row a retriever, or a slice and retriever: evidences by place.

    Places at which nothing is are left out.

    Args:
        experiment: its name.
        rows: as :func:`rag_assets.report.attribution_rows.attribution_rows` gives.
        by: the criterion of the slices.
    """
    shown = [place for place in PLACES if place == FOUND or any(row[place] for row in rows)]
    shares = by is None and len(shown) <= _WITH_SHARES
    table = _table()
    for name in [*([by] if by else []), "retriever"]:
        table.add_column(name, overflow="fold", min_width=8)
    headers = ["evi-\ndences", *[HEADERS[place] for place in shown], "recall", "ceil-\ning"]
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        lead = [_plain(row[name]) for name in ([by] if by else []) + ["retriever"]]
        counts = [_count(row, place, share=shares) for place in shown]
        ends = [_number(row["recall"]), _number(row["ceiling"])]
        table.add_row(*lead, str(row["n_evidences"]), *counts, *ends)
    split = "" if rows[0]["split"] == ALL else f", {rows[0]['split']}"
    title = f"{experiment}: where the evidences are, at top_k {rows[0]['top_k']}{split}"
    return Group(Text(title, style="bold"), table)


def lost_view(rows: Sequence[Row]) -> RenderableType:
    """Return one table a retriever: every evidence that it did not find.

    Args:
        rows: as :func:`rag_assets.report.attribution_rows.lost_rows` gives.
    """
    parts: list[RenderableType] = []
    for name, lost in groupby(rows, lambda row: str(row["retriever"])):
        parts += ["", _lost_table(name, list(lost))]
    return Group(*parts)


def _lost_table(retriever: str, rows: Sequence[Row]) -> RenderableType:
    inputs = [name for name in rows[0] if name.startswith(RANK_IN)]
    table = _table()
    table.add_column("query", overflow="fold")
    table.add_column("lost at", no_wrap=True)
    table.add_column("rank", justify="right", no_wrap=True)
    for number, _ in enumerate(inputs, 1):
        table.add_column(f"in {number}", justify="right", no_wrap=True)
    table.add_column("question and evidence", overflow="fold")
    for row in rows:
        what = _plain(row["query"]).append(f"\n{_plain(row['evidence_id'])}", style="dim")
        ranks = [_rank(row[name]) for name in ("rank", *inputs)]
        table.add_row(_plain(row["query_id"]), str(row["lost_at"]), *ranks, what)
    names = [f"in {n}: {name.removeprefix(RANK_IN)}" for n, name in enumerate(inputs, 1)]
    title = f"{retriever}: {len(rows)} lost"
    return Group(Text(f"{title} ({', '.join(names)})" if names else title, style="bold"), table)


def _table() -> Table:
    return FittedTable(narrow=True)


def _count(row: Row, place: str, *, share: bool) -> str:
    number = str(row[place])
    return f"{number} {_number(row[f'{place}_share'], '.0%'):>4}" if share else number


def _number(value: object, form: str = ".4f") -> str:
    return format(value, form) if isinstance(value, float) else "-"


def _rank(value: object) -> str:
    return "-" if value is None else str(value)


def _plain(value: object) -> Text:
    """Escape what a terminal would obey; ids and texts come from files."""
    return Text(one_line(str(value)))
