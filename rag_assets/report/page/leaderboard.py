"""The leaderboard on the page: its headline, a table a cut-off, and the charts.

The headline says which retriever to use, or that nobody can tell yet, and what is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.evaluation.metric_names import best_value
from rag_assets.report.board_columns import (
    CHOSEN_WEIGHTS,
    COST_TIME,
    PAGE,
    POSITION,
    RETRIEVER,
    columns_of,
)
from rag_assets.report.comparison_views import against
from rag_assets.report.leaderboard import ceilings, not_averaged
from rag_assets.report.page.embedded_data import rounded
from rag_assets.report.page.glossary import WORDS, meaning
from rag_assets.report.view import Context, View
from rag_assets.report.winner import winner_of


def headline(view: View) -> Context:
    """Return the parts of the sentence and its evidence.

    Keys: ``winner`` (the leaderboard row of the best, or None), ``answer`` (see
    :mod:`rag_assets.report.winner`), ``evidence`` (a comparison with the next best and with the
    baseline), ``facts`` (label and value of the best's numbers), ``not_averaged``
    (how many queries are in no mean, and why), ``weighted``.
    """
    weighted = any(row["weight"] != row["n_queries"] for row in view.rows)
    answer = winner_of(view)
    if answer is None:
        return {"winner": None, "weighted": weighted}
    return {
        "winner": view.ranked[0],
        "answer": answer,
        "evidence": _evidence(view, answer.best),
        "facts": _facts(view, view.ranked[0]),
        "not_averaged": not_averaged(view.ranked[0]),
        "weighted": weighted,
    }


def _evidence(view: View, winner: str) -> list[Context]:
    """Return the comparison of the winner with the next best, and with the baseline."""
    following = [row["retriever"] for row in view.ranked[1:2]]
    others = dict.fromkeys([*following, view.result.evaluation.baseline])
    rows = []
    for other in others:
        row = against(view, winner, other)
        if row is not None:
            roles = ["the next" if other in following else ""]
            roles += ["the baseline" if other == view.result.evaluation.baseline else ""]
            role = " and ".join(filter(None, roles))
            rows.append({**row, "role": role, "costs": _costs(view, winner, other)})
    return rows


def _costs(view: View, winner: str, other: str) -> list[str]:
    """Return what the winner costs, and what the other one, in each unit that is known of both."""
    costs = []
    times = view.speed
    if winner in times and other in times:
        costs.append(f"{milliseconds(times[winner])} a query against {milliseconds(times[other])}")
    tokens = {row["retriever"]: row["tokens"] for row in view.at_cutoff if "tokens" in row}
    if winner in tokens and other in tokens:
        costs.append(f"{tokens[winner]:,.0f} tokens against {tokens[other]:,.0f}")
    return costs


def _facts(view: View, winner: Context) -> list[Context]:
    name = winner["retriever"]
    interval = view.intervals.get((name, view.cutoff, view.measure))
    bounds = (
        f"{100 * interval['confidence']:g} % interval {interval['low']:.4f} to "
        f"{interval['high']:.4f}"
        if interval is not None and interval["low"] is not None
        else ""
    )
    facts = [
        {"name": view.result.evaluation.primary, "value": f"{winner[view.measure]:.4f}"}
        | {"note": bounds, "meaning": meaning(view.measure)}
    ]
    if name in view.speed:
        value = milliseconds(view.speed[name])
        facts.append(
            {
                "name": "a query",
                "value": value,
                "note": "median of single queries, with all that they need",
            }
        )
    if "tokens" in winner:
        note = f"mean of the {view.cutoff} texts returned"
        facts.append(
            {"name": "tokens of context", "value": f"{winner['tokens']:,.0f}", "note": note}
            | {"meaning": WORDS["tokens of context"]}
        )
    left_out = not_averaged(winner)
    facts.append(
        {"name": "queries averaged", "value": f"{winner['n_queries']:,}"}
        | {"note": f"not averaged: {left_out}" if left_out else "all have a relevant label"}
    )
    return [{"meaning": "", **fact} for fact in facts]


def milliseconds(value: float) -> str:
    """Return a time with three digits, never as a power of ten: ``0.29 ms``, ``2,240 ms``."""
    return f"{float(f'{value:.3g}'):,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def leaderboard(view: View) -> Context | None:
    """Return the tables; None without labels."""
    if not view.result.has_metrics:
        return None
    first = [view.cutoff] if view.cutoff in view.cutoffs else []
    order = [*first, *(k for k in view.cutoffs if k not in first)]
    weights = [{CHOSEN_WEIGHTS.name: text} for text in view.result.chosen_weights.values()]
    columns = columns_of(PAGE, [*view.rows, *weights])
    ceiling_of = ceilings(view.result, view.split)
    return {
        "boards": [_board(view, k) for k in order],
        "measures": view.measures,
        "position": POSITION,
        "retriever": RETRIEVER,
        "columns": columns,
        "ceilings": {name: ceiling_of[name] for name in view.retrievers if name in ceiling_of},
        "has_near": bool(view.near),
    }


def _board(view: View, k: int) -> Context:
    rows = [row for row in view.rows if row["top_k"] == k]
    best = {
        name: best_value(name, (row.get(name) for row in rows if "position" in row))
        for name in view.measures
    }
    return {"k": k, "rows": [_row(view, row, best) for row in rows]}


def _row(view: View, row: Context, best: dict[str, float | None]) -> Context:
    name = row["retriever"]
    cells = [_cell(view, row, measure, best[measure]) for measure in view.measures]
    return {
        **row,
        "cells": cells,
        "position": row.get("position"),
        "near": name in view.near,
        "speed": view.speed.get(name),
        CHOSEN_WEIGHTS.name: view.result.chosen_weights.get(name),
        COST_TIME.name: view.cost_times.get((name, row["top_k"])),
    }


def _cell(view: View, row: Context, measure: str, best: float | None) -> Context | None:
    value = row.get(measure)
    if value is None:
        return None
    interval = view.intervals.get((row["retriever"], row["top_k"], measure))
    known = interval is not None and interval["low"] is not None
    return {
        "value": value,
        "low": interval["low"] if interval is not None and known else None,
        "high": interval["high"] if interval is not None and known else None,
        "best": is_tied(value, best),
    }


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
