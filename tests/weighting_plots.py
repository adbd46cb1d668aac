"""The plots of docs/weightings.md: idf, saturation and length, as the lexical engines compute them.

No formula stands here: chunks are made that differ in one thing alone, an engine indexes them, and
what it scores is drawn, divided by its score of the reference. ``python -m tests.weighting_plots``
writes the SVGs, and a test compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import get_args

from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.tfidf import TfIdf
from rag_assets.retrieval.lexical.words import WordIndex
from tests.retrieval.lexical.index_of_texts import bm25, tfidf

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"

N_CHUNKS = 1000
MEAN_LENGTH = 100
K1, B = 1.2, 0.75
HOLDING = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300]
HOLDING += [400, 450, 500, 501, 550, 600, 700, 800, 900, 950, 990, 1000]
FREQUENCIES = range(1, 21)
LENGTHS = [*range(10, 100, 10), *range(100, 401, 20)]

VARIANTS = get_args(BM25.model_fields["variant"].annotation)
WEIGHTINGS = get_args(TfIdf.model_fields["weighting"].annotation)

Build = Callable[[list[list[str]]], WordIndex]
Curve = list[float]


def weightings() -> dict[str, Build]:
    lexical: dict[str, Build] = {name: partial(bm25, k1=K1, b=B, variant=name) for name in VARIANTS}
    return {**lexical, **{f"tfidf {n}": partial(tfidf, weighting=n) for n in WEIGHTINGS}}


def _filled(tokens: list[str], number: int, length: int) -> list[str]:
    """Return a chunk of so many tokens: those that are looked at, and words of its own."""
    return tokens + [f"own{number}x{n}" for n in range(length - len(tokens))]


def idf_curve(build: Build) -> Curve:
    """Score of a word by how many chunks hold it; 1 where one does."""
    chunks = [
        _filled([f"in{held}" for held in HOLDING if number < held], number, MEAN_LENGTH)
        for number in range(N_CHUNKS)
    ]
    engine = build(chunks)
    return _relative([float(engine.scores([f"in{held}"])[0]) for held in HOLDING], 0)


def saturation_curve(build: Build) -> Curve:
    """Score of a word by how often it occurs in a chunk of mean length; 1 where it does once."""
    times = {number: f for number, f in enumerate(FREQUENCIES)}
    chunks = [
        _filled(["word"] * times.get(number, 0), number, MEAN_LENGTH) for number in range(N_CHUNKS)
    ]
    engine = build(chunks)
    return _relative(engine.scores(["word"])[: len(times)].tolist(), 0)


def length_curve(build: Build) -> Curve:
    """Score of a word that occurs once, by the length of the chunk; 1 at the mean length."""
    rest = N_CHUNKS - len(LENGTHS)
    short, more = divmod(MEAN_LENGTH * N_CHUNKS - sum(LENGTHS), rest)
    lengths = [*LENGTHS, *(short + (number < more) for number in range(rest))]
    chunks = [
        _filled(["word"] if number < len(LENGTHS) else [], number, length)
        for number, length in enumerate(lengths)
    ]
    found = build(chunks).scores(["word"])[: len(LENGTHS)].tolist()
    return _relative(found, LENGTHS.index(MEAN_LENGTH))


def _relative(scores: Sequence[float], reference: int) -> Curve:
    return [score / scores[reference] for score in scores]


@dataclass(frozen=True)
class Plot:
    """One picture: what is below its axis, and what gives a curve."""

    title: str
    axis: str
    xs: Sequence[int]
    ticks: Sequence[int]
    curve: Callable[[Build], Curve]
    highest: float
    logarithmic: bool = False


PLOTS = {
    "weighting_idf.svg": Plot(
        "Weight of a word, by how many of 1,000 chunks hold it (1: one chunk)",
        "chunks that hold it",
        HOLDING,
        (1, 10, 100, 500, 1000),
        idf_curve,
        1.0,
        logarithmic=True,
    ),
    "weighting_saturation.svg": Plot(
        "Weight of a word, by how often it occurs in a chunk of mean length (1: once)",
        "occurrences",
        FREQUENCIES,
        (1, 5, 10, 15, 20),
        saturation_curve,
        3.0,
    ),
    "weighting_length.svg": Plot(
        "Weight of a word that occurs once, by the length of its chunk (1: mean length, 100)",
        "words of the chunk",
        LENGTHS,
        (10, 100, 200, 300, 400),
        length_curve,
        4.0,
    ),
}

WIDTH, HEIGHT, LEFT, TOP, LEGEND = 420, 280, 52, 48, 300
COLOURS = ("#1d4ed8", "#c2410c", "#047857", "#7c3aed", "#be185d", "#0891b2", "#a16207", "#374151")
DASHES = ("", "7 4", "2 3")
INK, FAINT, GRID = "#1f2937", "#6b7280", "#e5e7eb"


def alike(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    names: list[list[str]] = []
    for name, curve in curves.items():
        for group in names:
            if all(map(_close, curves[group[0]], curve)):
                group.append(name)
                break
        else:
            names.append([name])
    return {", ".join(group): curves[group[0]] for group in names}


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6)


def svg(plot: Plot) -> str:
    curves = alike({name: plot.curve(build) for name, build in weightings().items()})
    width, height = LEFT + WIDTH + LEGEND, TOP + HEIGHT + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(plot.title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        f'<clipPath id="frame"><rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}"/>'
        "</clipPath>",
        _text(LEFT, 26, plot.title, INK),
        *_frame(plot),
    ]
    y = TOP + 8
    for number, (name, curve) in enumerate(curves.items()):
        points = zip(plot.xs, curve, strict=True)
        path = "L".join(f"{_x(plot, x):.1f} {_y(plot, y):.1f}" for x, y in points)
        dash = DASHES[number // len(COLOURS)]
        look = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2" fill="none"'
        look += f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(
            f'<path clip-path="url(#frame)" d="M{path}" {look}><title>{escape(name)}</title></path>'
        )
        parts.append(f'<path d="M{LEFT + WIDTH + 18} {y}h22" {look}/>')
        for line in wrap(name, LEGEND // 9):
            parts.append(_text(LEFT + WIDTH + 46, y + 4, line, INK))
            y += 18
        y += 8
    return "\n".join([*parts, "</svg>"]) + "\n"


def _frame(plot: Plot) -> Iterator[str]:
    for step in range(5):
        value = plot.highest * step / 4
        yield f'<path d="M{LEFT} {_y(plot, value):.1f}h{WIDTH}" stroke="{GRID}"/>'
        yield _text(LEFT - 8, _y(plot, value) + 4, f"{value:g}", FAINT, "end")
    for tick in plot.ticks:
        x = _x(plot, tick)
        yield f'<path d="M{x:.1f} {TOP}v{HEIGHT}" stroke="{GRID}"/>'
        yield _text(x, TOP + HEIGHT + 18, f"{tick:,}", FAINT, "middle")
    yield _text(LEFT + WIDTH / 2, TOP + HEIGHT + 40, plot.axis, INK, "middle")


def _x(plot: Plot, value: float) -> float:
    low, high = plot.xs[0], plot.xs[-1]
    share = (value - low) / (high - low)
    if plot.logarithmic:
        share = math.log(value / low) / math.log(high / low)
    return LEFT + WIDTH * share


def _y(plot: Plot, value: float) -> float:
    return TOP + HEIGHT * (1 - value / plot.highest)


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"


def main() -> None:
    for name, plot in PLOTS.items():
        (IMAGES / name).write_text(svg(plot), encoding="utf-8")


if __name__ == "__main__":
    main()
