"""Figures by plotly, for a notebook and for the page with the explorer.

In a notebook their colours are those of the page's style sheet, light or dark. On the page they are
the names of these colours, which its script looks up, so that figures follow light, dark and print.
A retriever is told by its colour and by its symbol, dash and hatching.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from math import log10
from typing import TYPE_CHECKING, Any, Literal

from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.evaluation.metric_names import lower_is_better

if TYPE_CHECKING:
    import plotly.graph_objects as go

Theme = Literal["light", "dark", "page"]
"""Where a figure is shown."""

Trace = dict[str, Any]

N_COLOURS = 8
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", "\\", "x", "-", "|", "+", ".")

_VARIABLE = re.compile(r"--([\w-]+): (#[0-9a-f]{3,6});")


@cache
def colours(theme: Theme = "light") -> dict[str, str]:
    """Return name -> colour, such as ``c0`` of the first retriever and ``ink`` of texts."""
    sheet = resources.files("rag_assets.report.page").joinpath("style", "page.css")
    parts = sheet.read_text(encoding="utf-8").split("@media (prefers-color-scheme: dark)")
    values: dict[str, str] = dict(_VARIABLE.findall(parts[1 if theme == "dark" else 0]))
    return {name: f"var(--{name})" for name in values} if theme == "page" else values


def style(number: int, theme: Theme = "light") -> dict[str, str]:
    """Return how a retriever is drawn: by colour, and by symbol, dash and hatching."""
    return {
        "colour": colours(theme)[f"c{number % N_COLOURS}"],
        "symbol": SYMBOLS[(number + 3 * (number // N_COLOURS)) % len(SYMBOLS)],
        "dash": DASHES[number % len(DASHES)],
        "pattern": PATTERNS[number // N_COLOURS % len(PATTERNS)],
    }


def line_trace(name: str, drawn: Mapping[str, str]) -> Trace:
    """Return how a line with its points is drawn, without where they are."""
    return {
        **{"type": "scatter", "mode": "lines+markers", "name": plain(name)},
        "line": {"color": drawn["colour"], "dash": drawn["dash"], "width": 2},
        "marker": {"color": drawn["colour"], "symbol": drawn["symbol"], "size": 8},
    }


def plain(text: str) -> str:
    """Return a text in which plotly finds no HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure(
    traces: list[Trace],
    theme: Theme,
    title: str,
    **layout: Any,  # noqa: ANN401 (plotly's)
) -> go.Figure:
    """Return a figure of traces; ``layout`` is as plotly's. The page has headings of its own."""
    import plotly.graph_objects as go

    palette, is_page = colours(theme), theme == "page"
    lines = {"gridcolor": palette["line"], "zerolinecolor": palette["line"], "automargin": True}
    for axis in ("xaxis", "yaxis"):
        axis_line = {"linecolor": palette["soft"], "fixedrange": is_page, **layout.get(axis, {})}
        layout[axis] = {**lines, **axis_line}
    head: dict[str, Any] = {
        "title": {"text": title, "x": 0.01, "y": 1, "yanchor": "top", "pad": {"t": 14}},
        "margin": {"l": 60, "r": 20, "t": 50, "b": 45},
    }
    if is_page:
        head = {
            "margin": {"l": 56, "r": 12, "t": 8, "b": 40},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        }
    drawn: go.Figure = go.Figure(
        data=traces,
        layout={
            **{"template": "none", "hovermode": "closest"},
            **{"paper_bgcolor": palette["page"], "plot_bgcolor": palette["page"]},
            "font": {"color": palette["ink"], "family": "system-ui, sans-serif", "size": 12},
            "hoverlabel": {"bgcolor": palette["panel"], "font": {"color": palette["ink"]}},
            **head,
            **layout,
        },
    )
    return drawn


Bounds = tuple[float | None, float | None, float | None]
"""A mean, and the ends of its interval."""


def whiskers(bounds: Sequence[Bounds], theme: Theme) -> Trace:
    """Return plotly's bars of intervals; of length 0 where none is known."""
    return {
        **{"type": "data", "symmetric": False, "thickness": 1, "color": colours(theme)["ink"]},
        "array": [_length(value, high) for value, _, high in bounds],
        "arrayminus": [_length(low, value) for value, low, _ in bounds],
    }


def _length(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else high - low


def bounds_at(view: EvaluationResult, measure: str, top_k: int) -> dict[str, Bounds]:
    """Return retriever -> mean and interval at a cut-off."""
    means = {row["retriever"]: row.get(measure) for row in view.rows if row["top_k"] == top_k}
    intervals = {name: view.intervals.get((name, top_k, measure), {}) for name in view.retrievers}
    return {
        name: (means.get(name), interval.get("low"), interval.get("high"))
        for name, interval in intervals.items()
    }


def _bounds(view: EvaluationResult, measure: str) -> list[list[Bounds]]:
    """Return a list a retriever: mean and interval at each cut-off."""
    by_cutoff = [bounds_at(view, measure, k) for k in view.cutoffs]
    return [[bounds[name] for bounds in by_cutoff] for name in view.retrievers]


def bars_figure(view: EvaluationResult, measure: str, theme: Theme, title: str = "") -> go.Figure:
    """Return bars of a metric by retriever and top_k, light enough to show their intervals."""
    traces: list[Trace] = []
    for number, bounds in enumerate(_bounds(view, measure)):
        drawn = style(number, theme)
        hatching = {"shape": drawn["pattern"], "bgcolor": drawn["colour"]}
        pattern = {**hatching, "fgcolor": colours(theme)["page"], "size": 6, "solidity": 0.25}
        traces.append(
            {
                **{"type": "bar", "name": plain(view.retrievers[number])},
                **{"x": [f"@{k}" for k in view.cutoffs], "y": [mean for mean, _, _ in bounds]},
                "error_y": whiskers(bounds, theme),
                "marker": {"color": drawn["colour"], "pattern": pattern, "opacity": 0.75},
                "hovertemplate": "%{fullData.name}<br>%{x}: %{y:.4f}<extra></extra>",
            }
        )
    return figure(
        traces,
        theme,
        title,
        barmode="group",
        bargap=0.18,
        xaxis={"type": "category"},
        yaxis={"title": {"text": plain(measure)}, "rangemode": "tozero"},
        showlegend=True,
    )


MAX_BANDS = 4
"""Retrievers whose intervals do not hide each other."""


def curves_figure(view: EvaluationResult, measure: str) -> go.Figure:
    """Return a line a retriever over top_k; of few retrievers with a band of its intervals."""
    bands: list[Trace] = []
    lines: list[Trace] = []
    for number, bounds in enumerate(_bounds(view, measure)):
        drawn = style(number, "page")
        line = line_trace(view.retrievers[number], drawn)
        ends = [(k, of) for k, of in zip(view.cutoffs, bounds, strict=True) if of[1] is not None]
        bands.append(
            {
                **{"type": "scatter", "name": line["name"], "legendgroup": line["name"]},
                **{"mode": "lines", "showlegend": False, "hoverinfo": "skip"},
                "x": [k for k, _ in (*ends, *reversed(ends))],
                "y": [*(of[2] for _, of in ends), *(of[1] for _, of in reversed(ends))],
                **{"fill": "toself", "fillcolor": drawn["colour"], "opacity": 0.1},
                "line": {"width": 0},
            }
        )
        lines.append(
            {
                **{**line, "legendgroup": line["name"], "connectgaps": True},
                **{"x": view.cutoffs, "y": [mean for mean, _, _ in bounds]},
                "hovertemplate": "%{fullData.name}<br>@%{x}: %{y:.4f}<extra></extra>",
            }
        )
    ticks = {"tickvals": view.cutoffs, "ticktext": [str(k) for k in view.cutoffs]}
    return figure(
        [*(bands if len(bands) <= MAX_BANDS else []), *lines],
        "page",
        "",
        xaxis={"type": "log", "title": {"text": "top_k"}, **ticks},
        yaxis={"title": {"text": plain(measure)}},
        showlegend=True,
    )


def quality_figure(
    view: EvaluationResult, quality: Mapping[str, float], times: Mapping[str, float]
) -> go.Figure:
    """Return a point a retriever: the primary metric against milliseconds, and the Pareto front."""
    every = bounds_at(view, view.primary.column, view.cutoff)
    bounds = {name: of for name, of in every.items() if name in times}
    points = [
        {
            **{"type": "scatter", "mode": "markers", "name": plain(name)},
            **{"x": [times[name]], "y": [of[0]], "error_y": whiskers([of], "page")},
            "marker": {
                **{"color": style(number, "page")["colour"], "size": 13},
                "symbol": style(number, "page")["symbol"],
                "line": {"color": colours("page")["page"], "width": 1},
            },
            "hovertemplate": "%{fullData.name}<br>%{x:.3g} ms, %{y:.4f}<extra></extra>",
        }
        for name, of in bounds.items()
        for number in (view.retrievers.index(name),)
    ]
    return against_time(str(view.primary), quality, times, points, "page")


def against_time(
    metric: str,
    quality: Mapping[str, float],
    times: Mapping[str, float],
    traces: Sequence[Trace],
    theme: Theme,
    title: str = "",
) -> go.Figure:
    """Return traces of a metric against milliseconds, and the Pareto front as a line of steps."""
    front = pareto_front(metric, quality, times)
    line = {
        **{"type": "scatter", "mode": "lines", "hoverinfo": "skip", "showlegend": False},
        **{"x": [times[name] for name in front], "y": [quality[name] for name in front]},
        "line": {"color": colours(theme)["soft"], "dash": "dot", "width": 2, "shape": "hv"},
    }
    drawn = [ms for trace in traces for ms in trace["x"] if ms]
    least, most = (log10(end(drawn)) for end in (min, max))
    room = max(0.35, 0.1 * (most - least))
    steps = (1,) if most - least + 2 * room > 2 else (1, 2, 5)  # a short axis may lack powers of 10
    ticks = [step * 10.0**power for power in range(-4, 8) for step in steps]
    ends = {"tickvals": ticks, "range": [least - room, most + room]}
    return figure(
        [line, *traces],
        theme,
        title,
        xaxis={"type": "log", "title": {"text": "milliseconds a query (logarithmic)"}, **ends},
        yaxis={"title": {"text": plain(metric), "standoff": 14}},
        showlegend=True,
    )


def charts(view: EvaluationResult) -> Row | None:
    """Return the three charts, two of them by metric; None where there is no value to draw."""
    if not view.ranked:
        return None
    quality = {row["retriever"]: row[view.primary.column] for row in view.ranked}
    times = {name: ms for name, ms in view.speed.items() if name in quality}
    front = pareto_front(str(view.primary), quality, times)

    def data() -> Row:
        names = view.measures
        drawn = {"bars": {name: page_data(bars_figure(view, name, "page")) for name in names}}
        if len(view.cutoffs) > 1:
            drawn["curves"] = {name: page_data(curves_figure(view, name)) for name in names}
        if times:
            drawn["pareto"] = {"": page_data(quality_figure(view, quality, times))}
        return drawn

    return {"front": front, "unmeasured": [n for n in quality if n not in times], "data": data}


def page_data(drawn: go.Figure) -> Any:  # noqa: ANN401 (JSON)
    """Return a figure as the page's script reads it."""
    return json.loads(drawn.to_json())


def pareto_front(metric: str, quality: Mapping[str, float], cost: Mapping[str, float]) -> list[str]:
    """Return the names that no other one beats by a metric and by cost, cheapest first.

    One is beaten by another that is at least as good and at most as costly, and better in one of
    the two. A name without a cost is not on the front.
    """
    sign = -1 if lower_is_better(metric) else 1
    quality = {name: sign * value for name, value in quality.items()}
    names = [name for name in quality if name in cost]

    def beaten(name: str) -> bool:
        return any(
            quality[other] >= quality[name]
            and cost[other] <= cost[name]
            and (quality[other], cost[other]) != (quality[name], cost[name])
            for other in names
        )

    return sorted((name for name in names if not beaten(name)), key=lambda name: cost[name])
