"""Small tables of runs and judgments, made from plain mappings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from rag_assets.evaluation.metrics import query_metrics
from rag_assets.schemas import JUDGMENTS, RUNS

Row = dict[str, float | None]
Label = tuple[str, str, str | None, int]
"""Query, evidence, unit, grade."""


def run_table(rankings: Mapping[str, Sequence[str]]) -> pa.Table:
    """A run that holds for each query these units, best first."""
    return RUNS.from_rows(
        [
            {
                "query_id": query_id,
                "rank": rank,
                "score": 1.0 / rank,
                "item_id": item,
                "chunk_id": item,
                "document_id": item,
            }
            for query_id, items in rankings.items()
            for rank, item in enumerate(items, 1)
        ]
    )


def judgment_table(labels: Iterable[Label]) -> pa.Table:
    names = ("query_id", "evidence_id", "item_id", "grade")
    return JUDGMENTS.from_rows([dict(zip(names, label, strict=True)) for label in labels])


def document_judgments(qrels: Mapping[str, Mapping[str, int]]) -> pa.Table:
    """Every document is an evidence of its own, as in TREC."""
    return judgment_table(
        (query, document, document, grade)
        for query, grades in qrels.items()
        for document, grade in grades.items()
    )


def query_table(query_ids: Iterable[str]) -> pa.Table:
    return pa.table({"query_id": pa.array(list(query_ids), pa.string())})


def by_query(table: pa.Table) -> dict[str, Row]:
    return {row.pop("query_id"): row for row in table.to_pylist()}


def one_query(ranking: Sequence[str], labels: Iterable[tuple[str, str | None, int]], k: int) -> Row:
    """All metrics at ``k`` of one query with these (evidence, unit, grade)."""
    judgments = judgment_table(("q", *label) for label in labels)
    runs, judged_by = {"r": run_table({"q": ranking})}, {"r": "j"}
    cells = query_metrics(runs, {"j": judgments}, judged_by, query_table(["q"]), [("r", k)])
    return by_query(cells["r", k])["q"]
