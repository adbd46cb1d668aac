"""Curves as one SVG: a column for each thing that grows, time above and memory below, log-log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT, GAP_X, GAP_Y = 190, 170, 62, 74
LEFT, TOP, RIGHT, BOTTOM = 64, 44, 24, 92

COLOURS = {
    "cold": "#c2410c",
    "without a change": "#1d4ed8",
    "leaderboard": "#047857",
    "history": "#7c3aed",
    "gate": "#b45309",
    "plan": "#be185d",
}
INK, FAINT, GRID = "#1f2937", "#6b7280", "#e5e7eb"

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """What one thing cost at each size: seconds, and megabytes."""

    name: str
    seconds: Sequence[float]
    megabytes: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """Lines over the sizes of one thing that grows."""

    name: str
    sizes: Sequence[int]
    lines: Sequence[Line]


@dataclass(frozen=True)
class Axes:
    """A square of the picture, and the logarithms that its sides stand for."""

    left: float
    top: float
    low: Point
    high: Point

    def at(self, x: float, y: float) -> Point:
        """Return where a point is drawn."""
        right = (math.log10(x) - self.low[0]) / max(self.high[0] - self.low[0], 1e-9)
        up = (math.log10(y) - self.low[1]) / max(self.high[1] - self.low[1], 1e-9)
        return self.left + right * WIDTH, self.top + (1 - up) * HEIGHT


def write_plot(file: Path, panels: Sequence[Panel]) -> None:
    """Draw the panels beside each other into an SVG file."""
    width = LEFT + len(panels) * (WIDTH + GAP_X) - GAP_X + RIGHT
    height = TOP + 2 * HEIGHT + GAP_Y + BOTTOM
    seconds = _range(v for panel in panels for line in panel.lines for v in line.seconds)
    memory = _range(v for panel in panels for line in panel.lines for v in line.megabytes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
        "<title>Time and memory of a process over the size of an experiment</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(LEFT, 22, "wall time, seconds", INK, weight=600),
        _text(LEFT, TOP + HEIGHT + GAP_Y - 16, "peak memory, MB", INK, weight=600),
    ]
    for number, panel in enumerate(panels):
        left = LEFT + number * (WIDTH + GAP_X)
        sizes = math.log10(panel.sizes[0]), math.log10(panel.sizes[-1])
        for row, (low, high) in enumerate((seconds, memory)):
            top = TOP + row * (HEIGHT + GAP_Y)
            axes = Axes(left, top, (sizes[0], low), (sizes[1], high))
            parts += _frame(axes, panel, with_linear=row == 0)
            for line in panel.lines:
                parts += _line(axes, panel.sizes, line, row)
    parts += _legend(panels, height - 24)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _range(values: Iterator[float]) -> Point:
    """Return the decades that hold all values, as logarithms."""
    there = list(values)
    return math.floor(math.log10(min(there))), math.ceil(math.log10(max(there)))


def _frame(axes: Axes, panel: Panel, *, with_linear: bool) -> Iterator[str]:
    for power in range(int(axes.low[1]), int(axes.high[1]) + 1):
        x, y = axes.at(10 ** axes.low[0], 10.0**power)
        yield f'<path d="M{x:.1f} {y:.1f}h{WIDTH}" stroke="{GRID}"/>'
        yield _text(x - 8, y + 4, _short(10.0**power), FAINT, anchor="end")
    bottom = axes.top + HEIGHT
    for size in _ticks(panel.sizes):
        x, _ = axes.at(size, 1.0)
        yield f'<path d="M{x:.1f} {axes.top}V{bottom}" stroke="{GRID}"/>'
        yield _text(x, bottom + 17, _short(size), FAINT, anchor="middle")
    yield _text(axes.left + WIDTH / 2, bottom + 35, panel.name, INK, anchor="middle")
    if with_linear:
        yield _linear(axes)


def _linear(axes: Axes) -> str:
    """Draw what is proportional, through the lower left corner."""
    span = axes.high[0] - axes.low[0], axes.high[1] - axes.low[1]
    length = min(span)
    begin = axes.at(10 ** (axes.high[0] - length), 10 ** axes.low[1])
    end = axes.at(10 ** axes.high[0], 10 ** (axes.low[1] + length))
    return (
        f'<path d="M{begin[0]:.1f} {begin[1]:.1f}L{end[0]:.1f} {end[1]:.1f}" '
        f'stroke="{FAINT}" stroke-dasharray="3 4" fill="none"/>'
    )


def _line(axes: Axes, sizes: Sequence[int], line: Line, row: int) -> Iterator[str]:
    values = (line.seconds, line.megabytes)[row]
    points = [axes.at(x, y) for x, y in zip(sizes, values, strict=True)]
    colour = COLOURS.get(line.name, INK)
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    yield f'<path d="M{path}" stroke="{colour}" stroke-width="2" fill="none"/>'
    for (x, y), size, value in zip(points, sizes, values, strict=True):
        told = f"{line.name}, {size:,}: {value:.3g} {('s', 'MB')[row]}"
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}">'
            f"<title>{escape(told)}</title></circle>"
        )


def _legend(panels: Sequence[Panel], y: float) -> Iterator[str]:
    x = float(LEFT)
    for name in dict.fromkeys(line.name for panel in panels for line in panel.lines):
        colour = COLOURS.get(name, INK)
        yield f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="2"/>'
        yield f'<circle cx="{x + 9}" cy="{y - 4}" r="3.2" fill="{colour}"/>'
        yield _text(x + 26, y, name, INK)
        x += 26 + 7 * len(name) + 26
    yield f'<path d="M{x} {y - 4}h18" stroke="{FAINT}" stroke-dasharray="3 4"/>'
    yield _text(x + 26, y, "proportional", INK)


def _ticks(sizes: Sequence[int]) -> list[int]:
    """Return powers of ten where the sizes span decades, else the sizes."""
    if sizes[-1] < 100 * sizes[0]:
        return list(sizes)
    return [n for n in (10**power for power in range(12)) if sizes[0] <= n <= sizes[-1]]


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:g}k"
    return f"{value:g}"


def _text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
