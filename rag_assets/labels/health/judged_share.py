"""How much of what was retrieved anybody has judged."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rag_assets.evaluation.query_facts import ALL
from rag_assets.labels.health.findings import WARNING, Finding, findings_table

JUDGED = "judged_at_k"
DEFAULT_THRESHOLD = 0.1


def judged_at_k(
    summaries: Mapping[str, pa.Table], threshold: float = DEFAULT_THRESHOLD
) -> pa.Table:
    """Return a warning for each cell and split in which too few of the retrieved units are judged.

    An unjudged unit counts as not relevant, so a retriever that finds good but unjudged units
    looks worse than it is; pooling is the remedy.

    Args:
        summaries: retriever -> table of :data:`rag_assets.schemas.METRICS_SUMMARY`.
        threshold: the smallest share of judged units that is not reported.
    """
    findings = []
    for retriever, table in summaries.items():
        for row in table.to_pylist():
            if row["judged"] is not None and row["judged"] < threshold:
                where = "" if row.get("split", ALL) == ALL else f" on {row['split']}"
                message = (
                    f"{retriever} at top_k {row['top_k']}{where}: {row['judged']:.1%} of the "
                    f"retrieved units are judged, less than {threshold:.1%}; the others count as "
                    "not relevant"
                )
                findings.append(Finding(WARNING, JUDGED, message))
    return findings_table(findings)
