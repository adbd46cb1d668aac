"""Overlaps between retrievers as a list of rows for programs."""

from __future__ import annotations

from rag_assets.pipeline.selection import Selection
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row


def overlap_rows(result: EvaluationResult, selection: Selection | None = None) -> list[Row]:
    """Return one mapping for each pair of selected retrievers and each selected top_k.

    Keys: ``retriever_a``, ``retriever_b``, ``top_k``, and the other columns of
    :data:`rag_assets.schemas.OVERLAPS`. Empty where one retriever alone was evaluated.
    """
    rows: list[Row] = []
    for top_k, table in result.overlaps.items():
        if selection is not None and top_k not in selection.top_k:
            continue
        for row in table.to_pylist():
            pair = {name: row.pop(name) for name in ("retriever_a", "retriever_b")}
            if selection is None or set(pair.values()) <= set(selection.retrievers):
                rows.append({**pair, "top_k": top_k, **row})
    return rows
