"""Means by slice: the table for a terminal, and the section of the page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType

from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.evaluation.metric_names import best_value
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
    table.text_column(by)
    table.number_column("queries")
    for name in names:
        table.add_column(name, justify="right", overflow="fold", min_width=6)
    for row in slices:
        means = [row.means[name] for name in names]
        best = best_value(metric, means)
        values = [mean_cell(value, best) for value in means]
        table.add_row(one_line(row.value), str(row.n_queries), *values)
    where = "" if split == ALL else f", {split}"
    return Group(title_line(f"{metric} by {'query tag' if by == TAG else by}{where}"), table)


def slices(view: View) -> Context | None:
    """Return a row a tag; None where no answerable query has one."""
    every_slice = view.result.slices() if view.result.has_metrics else []
    if not every_slice:
        return None
    largest = sorted(every_slice, key=lambda each_slice: -each_slice.n_queries)[:MOST]
    values = {each_slice.value for each_slice in largest}
    names = [
        name
        for name in view.retrievers
        if any(name in each_slice.means for each_slice in every_slice)
    ]
    return {
        "names": names,
        "n_tags": len(every_slice),
        "rows": [
            {"tag": shortened(each_slice.value), "n_queries": each_slice.n_queries}
            | {"cells": _cells(view.measure, [each_slice.means.get(name) for name in names])}
            for each_slice in every_slice
            if each_slice.value in values
        ],
    }


def _cells(metric: str, means: Sequence[float | None]) -> list[Context | None]:
    best = best_value(metric, means)
    return [
        None if value is None else {"value": value, "best": is_tied(value, best)} for value in means
    ]
