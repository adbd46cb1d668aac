"""Means by slice: the table for a terminal, and the section of the page."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from rich.console import Group, RenderableType

from rag_assets.evaluation.leaderboard import TIE
from rag_assets.evaluation.query_facts import ALL
from rag_assets.plain_text import one_line
from rag_assets.report.page.embedded_data import shortened
from rag_assets.report.slices import TAG, Slice
from rag_assets.report.terminal_table import FittedTable, mean_cell, title_line
from rag_assets.report.view import Context, View

MOST = 200
"""Tags that are shown; where there are more, those with the most queries."""


def slices_view(
    slices: Sequence[Slice], metric: str, by: str = TAG, split: str = ALL
) -> RenderableType:
    """Return one table: a row a slice, a column a retriever, the best of each row marked."""
    names = list(slices[0].means)
    table = FittedTable()
    table.add_column(by, overflow="fold")
    table.add_column("queries", justify="right", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", overflow="fold", min_width=6)
    for one in slices:
        found = [one.means[name] for name in names]
        values = [mean_cell(-inf if value is None else value, one.best) for value in found]
        table.add_row(one_line(one.value), str(one.n_queries), *values)
    where = "" if split == ALL else f", {split}"
    return Group(title_line(f"{metric} by {'query tag' if by == TAG else by}{where}"), table)


def slices(view: View) -> Context | None:
    """Return a row a tag; None where no answerable query has one."""
    found = view.result.slices() if view.result.has_metrics else []
    if not found:
        return None
    largest = sorted(found, key=lambda one: -one.n_queries)[:MOST]
    kept = {one.value for one in largest}
    names = [name for name in view.retrievers if any(name in one.means for one in found)]
    return {
        "names": names,
        "n_tags": len(found),
        "rows": [
            {"tag": shortened(one.value), "n_queries": one.n_queries}
            | {"cells": [_cell(one.means.get(name), one.best) for name in names]}
            for one in found
            if one.value in kept
        ],
    }


def _cell(value: float | None, best: float) -> Context | None:
    return None if value is None else {"value": value, "best": value >= best - TIE}
