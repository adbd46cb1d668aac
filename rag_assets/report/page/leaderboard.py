"""The leaderboard on the page: its headline, and a table a cut-off.

The headline says which retriever to use, or that nobody can tell yet, and what is known.
"""

from __future__ import annotations

from rag_assets.report.comparisons import stored_verdict
from rag_assets.report.formats import interval_name, interval_text
from rag_assets.report.leaderboard import board_sheet, not_averaged
from rag_assets.report.page.environment import meaning
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.winner import winner_of

TOKENS = (
    "how much text the results are for a language model; a token is about three quarters of a word"
)


def headline(result: EvaluationResult) -> Row:
    """Return the parts of the sentence and its evidence.

    Keys: ``winner`` (the leaderboard row of the best, or None), ``answer`` (see
    :mod:`rag_assets.report.winner`), ``next`` (the verdict on it and the next best, or None),
    ``facts`` (label and value of the best's numbers), ``not_averaged`` (how many queries are in no
    mean, and why), ``weighted``.
    """
    weighted = any(row["weight"] != row["n_queries"] for row in result.rows)
    answer = winner_of(result)
    if answer is None:
        return {"winner": None, "weighted": weighted}
    following = [row["retriever"] for row in result.ranked[1:2]]
    return {
        "winner": result.ranked[0],
        "answer": answer,
        "next": stored_verdict(result.comparisons, answer.best, *following),
        "facts": _facts(result, result.ranked[0]),
        "not_averaged": not_averaged(result.ranked[0]),
        "weighted": weighted,
    }


def _facts(result: EvaluationResult, winner: Row) -> list[Row]:
    name = winner["retriever"]
    interval = result.intervals.get((name, result.cutoff, result.primary.column))
    bounds = ""
    if interval is not None and interval["low"] is not None:
        bounds = f"{interval_name(interval['confidence'])} {interval_text(interval)}"
    value = f"{winner[result.primary.column]:.4f}"
    facts = [_fact(result.evaluation.primary, value, bounds, meaning(result.primary.column))]
    if name in result.speed:
        note = "median of single queries, with all that they need"
        facts.append(_fact("a query", milliseconds(result.speed[name]), note))
    if "tokens" in winner:
        note = f"mean of the {result.cutoff} texts returned"
        facts.append(_fact("tokens of context", f"{winner['tokens']:,.0f}", note, TOKENS))
    left_out = not_averaged(winner)
    note = f"not averaged: {left_out}" if left_out else "all have a relevant label"
    facts.append(_fact("queries averaged", f"{winner['n_queries']:,}", note))
    return facts


def _fact(name: str, value: str, note: str, meaning: str = "") -> Row:
    return {"name": name, "value": value, "note": note, "meaning": meaning}


def milliseconds(value: float) -> str:
    """Return a time with three digits, never as a power of ten: ``0.29 ms``, ``2,240 ms``."""
    return f"{float(f'{value:.3g}'):,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def leaderboard(result: EvaluationResult) -> Row | None:
    """Return a sheet a cut-off, the primary one first; None without labels."""
    if not result.has_metrics:
        return None
    order = sorted(result.cutoffs, key=lambda k: (k != result.cutoff, k))
    rows_of = {k: [row for row in result.rows if row["top_k"] == k] for k in order}
    return {"boards": [(k, board_sheet(result, rows, "")) for k, rows in rows_of.items()]}
