"""What a comparison comes to, in one sentence that claims no more than was shown."""

from __future__ import annotations

from typing import Any

from rag_assets.pipeline.shown import is_shown
from rag_assets.report.formats import four_places


def verdict(row: dict[str, Any], n_pairs: int, caveat: str | None = None) -> str:
    """Return the sentence.

    Args:
        row: of :data:`rag_assets.schemas.COMPARISONS`.
        n_pairs: size of the family that ``p_adjusted`` was adjusted for.
        caveat: what limits the claim; None: nothing.
    """
    a, b, metric = row["retriever_a"], row["retriever_b"], f"{row['metric']}@{row['top_k']}"
    if row["difference"] is None:
        return f"nothing to compare: {a} and {b} have no query with a value of {metric} in common"
    if row["won"] == row["lost"] == 0:
        return f"{b} and {a} do the same on every query by {metric} ({row['n']} queries)"
    better, worse = (b, a) if row["difference"] > 0 else (a, b)
    size = f"{abs(row['difference']):.4f}{_interval(row, better == b)}"
    p = f"p = {p_text(row['p_randomisation'])}{_holm(row, n_pairs)}"
    if is_shown(row):
        limits = f"; but {caveat}" if caveat else _clusters(row)
        return f"{better} is better than {worse} on {metric} by {size}, {p}{limits}"
    return (
        f"no difference shown between {a} and {b} on {metric}: "
        f"{better} is ahead by {size}, {p}{_power(row)}"
    )


def _clusters(row: dict[str, Any]) -> str:
    clustered = row["n_clusters"] < row["n"]
    return f"; {row['n']} queries in {row['n_clusters']} clusters" if clustered else ""


def p_text(p: float | None) -> str:
    """Return p with four decimals, which is as fine as 10,000 sign patterns tell."""
    return "-" if p is None else four_places(p)


def _interval(row: dict[str, Any], as_it_stands: bool) -> str:
    if row["low"] is None:
        return ""
    low, high = (row["low"], row["high"]) if as_it_stands else (-row["high"], -row["low"])
    return f" [{low:.4f}, {high:.4f}]"


def _holm(row: dict[str, Any], n_pairs: int) -> str:
    if row["p_adjusted"] is None or n_pairs < 2:
        return ""
    return f" (Holm over {n_pairs} pairs {p_text(row['p_adjusted'])})"


def _power(row: dict[str, Any]) -> str:
    if row["detectable"] is None:
        return ""
    clusters = f" in {row['n_clusters']} clusters" if row["n_clusters"] < row["n"] else ""
    return f"; {row['n']} queries{clusters} can show {row['detectable']:.4f} or more"
