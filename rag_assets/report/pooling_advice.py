"""When to judge more: a mean over mostly unjudged results says little."""

from __future__ import annotations

from rag_assets.report.result import EvaluationResult

ENOUGH_JUDGED = 0.5
"""From this share of judged units at the primary cut-off on, nothing is said."""


def pooling_advice(result: EvaluationResult) -> str | None:
    """Return one sentence when people should judge what was retrieved; None when enough is judged.

    Without labels always. With labels when, at the primary metric's cut-off, less than half of the
    units of some retriever are judged: unjudged ones count as not relevant, so a retriever that
    finds something new looks worse than it is.
    """
    if not result.has_metrics:
        return "write what the retrievers found as a sheet, to be judged by people"
    shares = {
        row["retriever"]: row["judged"]
        for row in result.leaderboard.to_pylist()
        if row["top_k"] == result.primary.cutoff
        and row["split"] == result.chosen_split()
        and row["judged"] is not None
    }
    if not shares or min(shares.values()) >= ENOUGH_JUDGED:
        return None
    name = min(shares, key=lambda retriever: shares[retriever])
    return (
        f"only {shares[name]:.0%} of what {name} retrieved at top_k {result.primary.cutoff} is "
        "judged, the rest counts as not relevant; pooling would help"
    )
