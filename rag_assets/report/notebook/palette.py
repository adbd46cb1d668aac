"""The colours of the report, read from its style sheet, and the layout of figures in them."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

N_COLOURS = 8
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", "\\", "x", "-", "|", "+", ".")

_VARIABLE = re.compile(r"--([\w-]+): (#[0-9a-f]{3,6});")


@cache
def colours(dark: bool = False) -> dict[str, str]:
    """Return name -> colour, such as ``c0`` of the first retriever and ``ink`` of texts."""
    sheet = resources.files("rag_assets.report.page").joinpath("style", "page.css")
    parts = sheet.read_text(encoding="utf-8").split("@media (prefers-color-scheme: dark)")
    return dict(_VARIABLE.findall(parts[1 if dark else 0]))


def look(number: int, dark: bool = False) -> dict[str, str]:
    """Return how a retriever is drawn: by colour, and by symbol, dash and hatching.

    Args:
        number: its place, best first.
        dark: for a dark page.
    """
    return {
        "colour": colours(dark)[f"c{number % N_COLOURS}"],
        "symbol": SYMBOLS[(number + 3 * (number // N_COLOURS)) % len(SYMBOLS)],
        "dash": DASHES[number % len(DASHES)],
        "pattern": PATTERNS[number // N_COLOURS % len(PATTERNS)],
    }


def plain(text: str) -> str:
    """Return a text in which plotly finds no HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure(
    traces: list[dict[str, Any]],
    dark: bool,
    title: str,
    **layout: Any,  # noqa: ANN401 (plotly's)
) -> go.Figure:
    """Return a figure of traces; ``layout`` is as plotly's."""
    import plotly.graph_objects as go

    found = colours(dark)
    lines = {"gridcolor": found["line"], "zerolinecolor": found["line"], "automargin": True}
    for axis in ("xaxis", "yaxis"):
        layout[axis] = {**lines, "linecolor": found["soft"], **layout.get(axis, {})}
    drawn: go.Figure = go.Figure(
        data=traces,
        layout={
            "template": "none",
            "hovermode": "closest",
            "paper_bgcolor": found["page"],
            "plot_bgcolor": found["page"],
            "font": {"color": found["ink"], "family": "system-ui, sans-serif", "size": 12},
            "hoverlabel": {"bgcolor": found["panel"], "font": {"color": found["ink"]}},
            "title": {"text": title, "x": 0.01, "y": 1, "yanchor": "top", "pad": {"t": 14}},
            "margin": {"l": 60, "r": 20, "t": 50, "b": 45},
            **layout,
        },
    )
    return drawn


def whiskers(
    values: list[float | None], lows: list[float | None], highs: list[float | None], dark: bool
) -> dict[str, Any]:
    """Return plotly's bars of intervals; of length 0 where none is known."""
    rows = list(zip(values, lows, highs, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 1,
        "color": colours(dark)["soft"],
        "array": [_length(value, high) for value, _, high in rows],
        "arrayminus": [_length(low, value) for value, low, _ in rows],
    }


def _length(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else high - low
