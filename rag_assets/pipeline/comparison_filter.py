"""Which differences of the comparisons are shown, and which may be chance."""

from __future__ import annotations

from typing import Any

from rag_assets.statistics.detectable import ALPHA


def is_significant(row: dict[str, Any]) -> bool:
    """Return whether chance is ruled out: p below 0.05, after Holm where that is known.

    Args:
        row: of :data:`rag_assets.schemas.COMPARISONS`.
    """
    p = row["p_adjusted"] if row["p_adjusted"] is not None else row["p_randomisation"]
    return p is not None and p < ALPHA
