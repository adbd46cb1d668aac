"""The evidences of queries: where they lie, and at which rank each retriever has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.attribution import PLACES
from rag_assets.report.result import EvaluationResult
from rag_assets.sources.stage import QRELS_KEY

Span = tuple[str, int | None, int | None]
"""Document, and first and last character + 1; None: the whole document."""

UNKNOWN = -1


@dataclass(frozen=True)
class Evidence:
    """One relevant evidence of a query.

    Attributes:
        spans: its alternatives: any of them is enough.
        ranks: of each retriever the first rank in its stored ranking; None: not in it.
        places: of each retriever the number in :data:`rag_assets.evaluation.attribution.PLACES` of
            where it was found or lost; -1 where that is not known.
    """

    spans: list[Span]
    ranks: list[int | None]
    places: list[int]


def evidence_of(
    result: EvaluationResult, names: Sequence[str], query_ids: Sequence[str]
) -> dict[str, list[Evidence]]:
    """Return query -> its relevant evidences, ranks in the order of ``names``."""
    wanted = pa.array(query_ids, pa.string())
    places = [_places(result, name, wanted) for name in names]
    found: dict[str, list[Evidence]] = {}
    for (query_id, evidence_id), spans in _spans(result, wanted).items():
        known = [one.get((query_id, evidence_id), (None, UNKNOWN)) for one in places]
        evidence = Evidence(spans, [rank for rank, _ in known], [place for _, place in known])
        found.setdefault(query_id, []).append(evidence)
    return found


def _spans(result: EvaluationResult, query_ids: pa.Array) -> dict[tuple[str, str], list[Span]]:
    qrels = _of_queries(result.table(QRELS_KEY), query_ids)
    qrels = qrels.filter(pc.greater(qrels["grade"], 0))
    columns = ("query_id", "evidence_id", "document_id", "start", "end")
    spans: dict[tuple[str, str], list[Span]] = {}
    for query_id, evidence_id, *span in zip(*(qrels[c].to_pylist() for c in columns), strict=True):
        spans.setdefault((query_id, evidence_id), []).append((span[0], span[1], span[2]))
    return spans


def _places(
    result: EvaluationResult, retriever: str, query_ids: pa.Array
) -> Mapping[tuple[str, str], tuple[int | None, int]]:
    """Return (query, evidence) -> rank and place; empty for a retriever without attributions."""
    if not result.evaluation.entries_of("attributions") or retriever not in result.attributions:
        return {}
    table = _of_queries(result.attributions[retriever], query_ids)
    columns = ("query_id", "evidence_id", "rank", "lost_at")
    rows = zip(*(table[column].to_pylist() for column in columns), strict=True)
    return {(q, evidence): (rank, PLACES.index(place)) for q, evidence, rank, place in rows}


def _of_queries(table: pa.Table, query_ids: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table["query_id"], query_ids))
