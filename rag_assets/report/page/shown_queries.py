"""Which queries the explorer shows, and the value that each retriever has on them."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.report.page.view import Context, View


def shown_queries(view: View, names: Sequence[str], most: int) -> list[Context]:
    """Return at most so many queries of the split, those first on which the retrievers differ most.

    Keys: ``query_id``, ``text``, ``tags``, and ``values``, the primary metric of each retriever in
    the order of ``names``; None where it has none, because the query is unanswerable or it failed.
    """
    cells = view.result.query_metrics(view.cutoff)
    values = []
    for name in names:
        table = cells[name]
        columns = (table[column].to_pylist() for column in ("query_id", view.measure))
        values.append(dict(zip(*columns, strict=True)))
    counted = view.result.weights(view.split)
    spread = {query_id: _spread([one.get(query_id) for one in values]) for query_id in counted}
    chosen = sorted(spread, key=lambda query_id: (-spread[query_id], query_id))[:most]
    table = view.result.queries
    columns = (table[column].to_pylist() for column in ("query_id", "text", "tags"))
    rows = {query_id: (text, tags) for query_id, text, tags in zip(*columns, strict=True)}
    return [
        {"query_id": query_id, "text": rows[query_id][0], "tags": rows[query_id][1]}
        | {"values": [_rounded(one.get(query_id)) for one in values]}
        for query_id in chosen
    ]


def _spread(values: Sequence[float | None]) -> float:
    """Return highest minus lowest; queries without a value come last."""
    known = [value for value in values if value is not None]
    return max(known) - min(known) if known else -1.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
