"""Which differences of the comparisons are more than chance, and what they say of the baseline."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rag_assets.statistics.t_test import ALPHA


def is_significant(row: dict[str, Any]) -> bool:
    """Return whether chance is ruled out: p below 0.05, after Holm where that is known.

    Args:
        row: of :data:`rag_assets.schemas.COMPARISONS`.
    """
    p = row["p_adjusted"] if row["p_adjusted"] is not None else row["p_randomisation"]
    return p is not None and p < ALPHA


def is_tested(comparisons: pa.Table, baseline: str) -> bool:
    """Return whether there is a test of any retriever against the baseline, in any split."""
    return any(
        row["p_randomisation"] is not None
        for row in comparisons.to_pylist()
        if baseline in (row["retriever_a"], row["retriever_b"])
    )


def regressions(comparisons: pa.Table, baseline: str) -> list[str]:
    """Return a sentence for each retriever that is shown to be worse than the baseline, by split.

    Args:
        comparisons: table of :data:`rag_assets.schemas.COMPARISONS`.
        baseline: name of the retriever that the others are measured by.
    """
    sentences = []
    for row in comparisons.to_pylist():
        names = (row["retriever_a"], row["retriever_b"])
        if baseline not in names or row["difference"] is None or not is_significant(row):
            continue
        other = names[names[0] == baseline]
        gain = row["difference"] if other == names[1] else -row["difference"]
        if gain < 0:
            p = row["p_adjusted"] if row["p_adjusted"] is not None else row["p_randomisation"]
            shown = f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"
            sentences.append(
                f"{other} is worse than {baseline} on {row['metric']}@{row['top_k']} "
                f"({row['split']}) by {-gain:.4f}, p = {shown}"
            )
    return sentences
