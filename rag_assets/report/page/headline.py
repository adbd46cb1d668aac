"""The headline: which retriever to use, by how much, whether that is real, and at which cost."""

from __future__ import annotations

from rag_assets.pipeline.shown import is_shown
from rag_assets.report.comparisons import Compared
from rag_assets.report.page.view import Context, View
from rag_assets.report.verdict import p_text

CHEAPER = 0.5
"""A retriever is called cheaper when it takes at most this share of the time: less is jitter."""


def headline(view: View) -> Context:
    """Return the parts of the sentence and its evidence.

    Keys: ``winner`` (a leaderboard row, or None), ``equal`` (those with the same value), ``near``
    (those not shown to be worse), ``cheaper`` (one of both that takes much less time, or None),
    ``evidence`` (a comparison with the next best and with the baseline), ``facts`` (label and value
    of the winner's numbers), ``compared``, ``caveat`` (what limits the claim, or
    None), ``weighted``.
    """
    weighted = any(row["weight"] != row["n_queries"] for row in view.rows)
    if not view.ranked:
        return {"winner": None, "weighted": weighted}
    winner = view.ranked[0]
    return {
        "winner": winner,
        "equal": [row["retriever"] for row in view.ranked[1:] if row["position"] == 1],
        "near": [row["retriever"] for row in view.ranked if row["retriever"] in view.near],
        "cheaper": _cheaper(view, winner["retriever"]),
        "evidence": _evidence(view, winner["retriever"]),
        "facts": _facts(view, winner),
        "compared": bool(view.comparisons),
        "caveat": Compared.of(view.result, split=view.split).caveat if view.comparisons else None,
        "weighted": weighted,
    }


def _cheaper(view: View, winner: str) -> Context | None:
    """Return the fastest retriever that is not shown to be worse, where it is much faster."""
    times = view.speed
    equal = {row["retriever"] for row in view.ranked if row["position"] == 1}
    names = [name for name in view.retrievers if name in times and name in view.near | equal]
    fastest = min(names, key=lambda name: times[name], default=None)
    if fastest is None or winner not in times or times[fastest] > CHEAPER * times[winner]:
        return None
    return {
        "retriever": fastest,
        "time": milliseconds(times[fastest]),
        "winner_time": milliseconds(times[winner]),
    }


def _evidence(view: View, winner: str) -> list[Context]:
    """Return the comparison of the winner with the next best, and with the baseline."""
    following = [row["retriever"] for row in view.ranked[1:2]]
    others = dict.fromkeys([*following, view.result.evaluation.baseline])
    found = []
    for other in others:
        row = against(view, winner, other)
        if row is not None:
            roles = ["the next" if other in following else ""]
            roles += ["the baseline" if other == view.result.evaluation.baseline else ""]
            role = " and ".join(filter(None, roles))
            found.append({**row, "role": role, "costs": _costs(view, winner, other)})
    return found


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


def against(view: View, one: str, other: str) -> Context | None:
    """Return how far ``one`` is above ``other``; None where the two were not compared."""
    for row in view.comparisons:
        if {one, other} == {row["retriever_a"], row["retriever_b"]} and one != other:
            if row["difference"] is None:
                return None
            sign = 1 if row["retriever_b"] == one else -1
            bounds = [row["low"], row["high"]][::sign]
            return {
                "other": other,
                "difference": sign * row["difference"],
                "low": None if row["low"] is None else sign * bounds[0],
                "high": None if row["low"] is None else sign * bounds[1],
                "p": p_text(row["p_randomisation"]),
                "holm": p_text(row["p_adjusted"]) if row["p_adjusted"] is not None else None,
                "shown": is_shown(row),
                "won": row["won"] if sign == 1 else row["lost"],
                "tied": row["tied"],
                "lost": row["lost"] if sign == 1 else row["won"],
                "n": row["n"],
                "n_clusters": row["n_clusters"],
                "detectable": row["detectable"],
            }
    return None


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
        | {"note": bounds}
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
        )
    counted = f"{winner['n_unanswerable']} unanswerable ones are counted, not averaged"
    facts.append(
        {"name": "queries averaged", "value": f"{winner['n_queries']:,}"}
        | {"note": counted if winner["n_unanswerable"] else "all are answerable"}
    )
    return facts


def milliseconds(value: float) -> str:
    """Return a time with three digits, never as a power of ten: ``0.29 ms``, ``2,240 ms``."""
    return f"{float(f'{value:.3g}'):,.0f} ms" if value >= 100 else f"{value:.3g} ms"
