"""What nobody judged, though it was retrieved or is nearly a relevant document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.query_facts import ALL
from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.labels.health.near_duplicates import Pair
from rag_assets.sources.fields import shown

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


UNJUDGED = "unjudged_twin"


class _Twin(NamedTuple):
    row: int
    similarity: float


def unjudged_twins(qrels: pa.Table, documents: pa.Table, pairs: Sequence[Pair]) -> pa.Table:
    """Return a warning for each query and each unjudged near-duplicate of a relevant document.

    Where the judgment is a span, the twin must hold its text to the character.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        pairs: what ``near_duplicates`` found in its texts.
    """
    ids, texts = documents.column("document_id").to_pylist(), documents.column("text")
    twins = _twins(pairs)
    rows = {ids[row]: row for row in twins}
    judged = set(
        zip(*(qrels.column(n).to_pylist() for n in ("query_id", "document_id")), strict=True)
    )
    findings: dict[tuple[str, str], Finding] = {}
    for label in qrels.filter(pc.greater(qrels.column("grade"), 0)).to_pylist():
        query, relevant = label["query_id"], label["document_id"]
        for twin in twins.get(rows.get(relevant, -1), ()):
            other = ids[twin.row]
            if (query, other) not in judged and _holds(texts, rows[relevant], twin.row, label):
                message = (
                    f"is not judged, but {twin.similarity:.0%} like {shown(relevant)}, which is "
                    "relevant; it counts as not relevant"
                )
                findings.setdefault(
                    (query, other),
                    Finding(WARNING, UNJUDGED, message, query, other, label["evidence_id"]),
                )
    return findings_table(findings.values())


def _twins(pairs: Sequence[Pair]) -> dict[int, list[_Twin]]:
    by_row: dict[int, list[_Twin]] = defaultdict(list)
    for pair in pairs:
        by_row[pair.first].append(_Twin(pair.second, pair.similarity))
        by_row[pair.second].append(_Twin(pair.first, pair.similarity))
    return dict(by_row)


def _holds(texts: pa.ChunkedArray, relevant: int, twin: int, label: dict[str, int | None]) -> bool:
    if label["start"] is None:
        return True
    quote = texts[relevant].as_py()[label["start"] : label["end"]]
    return quote in texts[twin].as_py()
