"""The leaderboard on the page: its headline, a table a cut-off, and the charts.

The headline says which retriever to use, or that nobody can tell yet, and what is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.report.comparison_views import against
from rag_assets.report.formats import interval_name, interval_text
from rag_assets.report.leaderboard import board_sheet, not_averaged
from rag_assets.report.page.environment import WORDS, meaning, rounded
from rag_assets.report.view import Context, View
from rag_assets.report.winner import winner_of


def headline(view: View) -> Context:
    """Return the parts of the sentence and its evidence.

    Keys: ``winner`` (the leaderboard row of the best, or None), ``answer`` (see
    :mod:`rag_assets.report.winner`), ``next`` (the comparison with the next best, or None),
    ``facts`` (label and value of the best's numbers), ``not_averaged`` (how many queries are in no
    mean, and why), ``weighted``.
    """
    weighted = any(row["weight"] != row["n_queries"] for row in view.rows)
    answer = winner_of(view)
    if answer is None:
        return {"winner": None, "weighted": weighted}
    following = [row["retriever"] for row in view.ranked[1:2]]
    return {
        "winner": view.ranked[0],
        "answer": answer,
        "next": against(view, answer.best, following[0]) if following else None,
        "facts": _facts(view, view.ranked[0]),
        "not_averaged": not_averaged(view.ranked[0]),
        "weighted": weighted,
    }


def _facts(view: View, winner: Context) -> list[Context]:
    name = winner["retriever"]
    interval = view.intervals.get((name, view.cutoff, view.measure))
    bounds = ""
    if interval is not None and interval["low"] is not None:
        bounds = f"{interval_name(interval['confidence'])} {interval_text(interval)}"
    value = f"{winner[view.measure]:.4f}"
    facts = [_fact(view.result.evaluation.primary, value, bounds, meaning(view.measure))]
    if name in view.speed:
        note = "median of single queries, with all that they need"
        facts.append(_fact("a query", milliseconds(view.speed[name]), note))
    if "tokens" in winner:
        word = "tokens of context"
        note = f"mean of the {view.cutoff} texts returned"
        facts.append(_fact(word, f"{winner['tokens']:,.0f}", note, WORDS[word]))
    left_out = not_averaged(winner)
    note = f"not averaged: {left_out}" if left_out else "all have a relevant label"
    facts.append(_fact("queries averaged", f"{winner['n_queries']:,}", note))
    return facts


def _fact(name: str, value: str, note: str, meaning: str = "") -> Context:
    return {"name": name, "value": value, "note": note, "meaning": meaning}


def milliseconds(value: float) -> str:
    """Return a time with three digits, never as a power of ten: ``0.29 ms``, ``2,240 ms``."""
    return f"{float(f'{value:.3g}'):,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def leaderboard(view: View) -> Context | None:
    """Return a sheet a cut-off, the primary one first; None without labels."""
    if not view.result.has_metrics:
        return None
    order = sorted(view.cutoffs, key=lambda k: (k != view.cutoff, k))
    rows_of = {k: [row for row in view.rows if row["top_k"] == k] for k in order}
    return {"boards": [(k, board_sheet(view, rows, "")) for k, rows in rows_of.items()]}


def charts(view: View) -> Context | None:
    """Return the data of the three charts; None where there is no value to draw."""
    if not view.ranked:
        return None
    quality = {row["retriever"]: row[view.measure] for row in view.ranked}
    times = {name: ms for name, ms in view.speed.items() if name in quality}
    front = pareto_front(quality, times)
    return {
        "front": front,
        "has_curves": len(view.cutoffs) > 1,
        "has_times": bool(times),
        "unmeasured": [name for name in quality if name not in times],
        "data": {
            "retrievers": view.retrievers,
            "cutoffs": view.cutoffs,
            "measures": view.measures,
            "primary": {"measure": view.measure, "cutoff": view.cutoff},
            "confidence": view.confidence,
            "values": {name: _values(view, name) for name in view.measures},
            "times": {name: round(ms, 4) for name, ms in times.items()},
            "front": front,
        },
    }


def _values(view: View, measure: str) -> list[list[list[float | None] | None]]:
    """Return for each retriever and cut-off mean, low and high; null where there is no mean."""
    means = {(row["retriever"], row["top_k"]): row.get(measure) for row in view.rows}
    return [
        [_bounds(view, name, k, measure, means.get((name, k))) for k in view.cutoffs]
        for name in view.retrievers
    ]


def _bounds(
    view: View, name: str, k: int, measure: str, mean: float | None
) -> list[float | None] | None:
    if mean is None:
        return None
    row = view.intervals.get((name, k, measure), {})
    return [rounded(value) for value in (mean, row.get("low"), row.get("high"))]


def pareto_front(quality: Mapping[str, float], cost: Mapping[str, float]) -> list[str]:
    """Return the names that no other one beats, cheapest first.

    One is beaten by another that is at least as good and at most as costly, and better in one of
    the two. A name without a cost is not on the front.
    """
    names = [name for name in quality if name in cost]

    def beaten(name: str) -> bool:
        return any(
            quality[other] >= quality[name]
            and cost[other] <= cost[name]
            and (quality[other], cost[other]) != (quality[name], cost[name])
            for other in names
        )

    return sorted((name for name in names if not beaten(name)), key=lambda name: cost[name])
