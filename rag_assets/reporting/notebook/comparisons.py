"""Compared retrievers in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_assets.pipeline.shown import is_shown
from rag_assets.reporting.interval_text import interval_name
from rag_assets.reporting.notebook.evaluations import whiskers
from rag_assets.reporting.notebook.html import Cell, table_html, words
from rag_assets.reporting.notebook.palette import colours, figure, plain
from rag_assets.reporting.verdict import p_text
from rag_assets.statistics.detectable import ALPHA

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from rag_assets.reporting.comparison import Comparison

Row = dict[str, Any]


def comparison_html(comparison: Comparison) -> str:
    """Return a row a pair, and of one pair the verdict in words."""
    compared = comparison.compared
    of = "" if compared.split == "all" else f", {compared.split} split"
    title = f"{compared.result.evaluation.experiment}: differences in {compared.metric}{of}"
    adjusted = any(row["p_adjusted"] is not None for row in comparison.rows)
    interval = interval_name(compared.resampling.confidence)
    headings = ["pair", "difference", interval, "p", *(["Holm"] if adjusted else [])]
    rows = [_cells(row, adjusted) for row in comparison.rows]
    said = comparison.verdicts if len(comparison.rows) == 1 else []
    after = " after Holm over all pairs" if adjusted else ""
    notes = [f"* p < {ALPHA}{after}: chance hardly explains it", *compared.notes]
    return table_html(title, [*headings, "won", "tied", "lost"], rows, said, notes)


def _cells(row: Row, adjusted: bool) -> list[Cell]:
    mark = "*" if is_shown(row) else ""
    texts = [
        f"{_signed(row['difference'])}{mark}",
        "" if row["low"] is None else f"{_signed(row['low'])} to {_signed(row['high'])}",
        p_text(row["p_randomisation"]),
        *([p_text(row["p_adjusted"])] if adjusted else []),
        *(str(row[name]) for name in ("won", "tied", "lost")),
    ]
    return [words(_pair(row)), *map(Cell, texts)]


def _pair(row: Row) -> str:
    return f"{row['retriever_b']} - {row['retriever_a']}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def comparison_figure(comparison: Comparison, dark: bool) -> go.Figure:
    """Return a point a pair with its interval; filled where the difference is real."""
    rows = [row for row in comparison.rows if row["difference"] is not None][::-1]
    values: list[float | None] = [row["difference"] for row in rows]
    found = colours(dark)
    shown = [is_shown(row) for row in rows]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": values,
        "y": [plain(_pair(row)) for row in rows],
        "error_x": whiskers(
            values, [row["low"] for row in rows], [row["high"] for row in rows], dark
        ),
        "marker": {
            "size": 11,
            "color": [found["c0"] if one else found["page"] for one in shown],
            "line": {"width": 2, "color": found["c0"]},
        },
        "customdata": [["real" if one else "not shown"] for one in shown],
        "hovertemplate": "%{y}<br>%{x:+.4f}, %{customdata[0]}<extra></extra>",
    }
    metric = plain(str(comparison.compared.metric))
    return figure(
        [trace],
        dark,
        title=f"Differences in {metric}; filled: real",
        height=150 + 34 * len(rows),
        xaxis={"title": {"text": f"difference in {metric}"}, "zeroline": True, "zerolinewidth": 2},
        yaxis={"type": "category", "range": [-0.7, len(rows) - 0.3]},
    )
