"""The leaderboard: a table a cut-off, the primary one first, each value with its interval."""

from __future__ import annotations

from rag_assets.evaluation.leaderboard import TIE
from rag_assets.report.ceilings import ceilings
from rag_assets.report.page.view import Context, View


def leaderboard(view: View) -> Context | None:
    """Return the tables; None without labels."""
    if not view.result.has_metrics:
        return None
    first = [view.cutoff] if view.cutoff in view.cutoffs else []
    order = [*first, *(k for k in view.cutoffs if k not in first)]
    has_tokens = any("tokens" in row for row in view.rows)
    found = ceilings(view.result, view.split)
    return {
        "boards": [_board(view, k, has_tokens) for k in order],
        "measures": view.measures,
        "has_tokens": has_tokens,
        "ceilings": {name: found[name] for name in view.retrievers if name in found},
        "has_near": bool(view.near),
        "has_failed": any(row["n_failed"] for row in view.rows),
    }


def _board(view: View, k: int, has_tokens: bool) -> Context:
    rows = [row for row in view.rows if row["top_k"] == k]
    best = {
        name: max((row[name] for row in rows if name in row), default=0.0) for name in view.measures
    }
    return {"k": k, "rows": [_row(view, row, best) for row in rows], "has_tokens": has_tokens}


def _row(view: View, row: Context, best: dict[str, float]) -> Context:
    name = row["retriever"]
    cells = [_cell(view, row, measure, best[measure]) for measure in view.measures]
    return {
        **row,
        "cells": cells,
        "position": row.get("position"),
        "near": name in view.near,
        "tokens": row.get("tokens"),
        "speed": view.speed.get(name),
    }


def _cell(view: View, row: Context, measure: str, best: float) -> Context | None:
    value = row.get(measure)
    if value is None:
        return None
    interval = view.intervals.get((row["retriever"], row["top_k"], measure))
    known = interval is not None and interval["low"] is not None
    return {
        "value": value,
        "low": interval["low"] if interval is not None and known else None,
        "high": interval["high"] if interval is not None and known else None,
        "best": value >= best - TIE,
    }
