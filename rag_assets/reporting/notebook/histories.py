"""A metric over evaluations in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_assets.reporting.history_rows import changes_text
from rag_assets.reporting.notebook.html import Cell, number, table_html, words
from rag_assets.reporting.notebook.palette import colours, figure, look, plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from rag_assets.reporting.metric_history import MetricHistory

Row = dict[str, Any]

MOST_DATES = 8
"""Dates below a figure, so that they do not touch."""

SHOWN = 120
"""Characters of what changed that stand at a point of the figure; the table has all."""


def history_html(history: MetricHistory) -> str:
    """Return a row an evaluation and retriever, the newest evaluation first."""
    rows: list[list[Cell]] = []
    for group in reversed(list(_by_evaluation(history.rows).values())):
        for place, row in enumerate(group):
            lead = [words(""), words("")] if place else [words(*_when(row)), words(_what(row))]
            change = "" if row["change"] is None else f"{row['change']:+.4f}"
            value = number(row["value"])
            rows.append([lead[0], words(row["retriever"] or "-"), value, Cell(change), lead[1]])
    headings = ["evaluation", "retriever", str(history.metric), "change", "what changed"]
    notes = ["without a change: the first of its name, or over other queries, labels or weights"]
    return table_html(
        f"{history.experiment}: {history.metric} over evaluations", headings, rows, notes=notes
    )


def _by_evaluation(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["evaluation_id"], []).append(row)
    return found


def _when(row: Row) -> tuple[str, str]:
    return row["started"][:16].replace("T", " "), str(row["evaluation_id"])[-4:]


def _what(row: Row) -> str:
    parts = [changes_text(row["changes"]), "" if row["complete"] else "incomplete"]
    return "; ".join(part for part in parts if part)


def history_figure(history: MetricHistory, dark: bool) -> go.Figure:
    """Return a line a retriever over evaluations at equal distances, with what changed at each."""
    groups = list(_by_evaluation(history.rows).values())
    names = list(dict.fromkeys(row["retriever"] for row in history.rows if row["retriever"]))
    broken = [n for n, group in enumerate(groups) if n and group[0]["comparable"] is False]
    traces = [_line(groups, name, look(n, dark), broken) for n, name in enumerate(names)]
    metric = plain(str(history.metric))
    step = max(-(-len(groups) // MOST_DATES), 1)
    dated = range(len(groups) - 1, -1, -step)
    return figure(
        traces,
        dark,
        title=f"{plain(history.experiment)}: {metric} over evaluations",
        xaxis={
            "tickvals": [n + 1 for n in dated],
            "ticktext": [_when(groups[n][0])[0].replace(" ", "<br>") for n in dated],
            "tickangle": 0,
            "showgrid": False,
            "zeroline": False,
        },
        yaxis={"title": {"text": metric}},
        shapes=[_break(n + 0.5, dark) for n in broken],
    )


def _line(
    groups: list[list[Row]], name: str, drawn: dict[str, str], broken: list[int]
) -> dict[str, Any]:
    points: list[tuple[float, float | None, str]] = []
    for n, group in enumerate(groups):
        if n in broken:
            points.append((n + 0.5, None, ""))
        points += [
            (n + 1, row["value"], plain(_what(row)[:SHOWN]))
            for row in group
            if row["retriever"] == name
        ]
    x, y, said = zip(*points, strict=True)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": x,
        "y": y,
        "customdata": [[text] for text in said],
        "line": {"color": drawn["colour"], "dash": drawn["dash"], "width": 2},
        "marker": {"color": drawn["colour"], "symbol": drawn["symbol"], "size": 9},
        "hovertemplate": "%{fullData.name}: %{y:.4f}<br>%{customdata[0]}<extra></extra>",
    }


def _break(x: float, dark: bool) -> dict[str, Any]:
    line = {"color": colours(dark)["soft"], "dash": "dot", "width": 2}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}
