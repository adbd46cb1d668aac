"""How alike the results of retrievers are, and those of one query among each other.

Overlaps are what an experiment without labels shows. Similarities within a list of results stand
below a leaderboard with ``mmr``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.analysis.result import SAMPLED, EvaluationResult, Row
from rag_assets.evaluation.leaderboard import mean
from rag_assets.pipeline.selection import Selection
from rag_assets.sheets.sheet import TEXT, Column, Sheet


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


def overlap_sheets(result: EvaluationResult, rows: Sequence[Row]) -> list[Sheet]:
    """Return the tables of an evaluation without labels; no metric is among them."""
    name, n_queries = result.evaluation.experiment, result.queries.num_rows
    labels = "no labels yet, so no metric"
    if (estimated := result.sampled_primary) is not None:
        labels = f"labels of a sample, which estimate {estimated.removeprefix(SAMPLED)}"
    title = f"{name}: {labels}; {n_queries} queries{result.of_sample}"
    return [_speed(result, title), *pair_sheets(rows)]


def pair_sheets(rows: Sequence[Row]) -> list[Sheet]:
    """Return the share of common units, a row a pair and a column a top_k; none for one alone."""
    pairs: dict[str, Row] = {}
    notes: list[str] = []
    for row in rows:
        mark = ""
        if row["compared"] == "document":
            mark, notes = " *", ["* compared by documents: the two search different chunkings"]
        name = f"{row['retriever_a']}, {row['retriever_b']}{mark}"
        pairs.setdefault(name, {"pair": name})[f"@{row['top_k']}"] = row["overlap"]
    cutoffs = sorted({row["top_k"] for row in rows})
    columns = (Column("pair", "retrievers", TEXT), *(Column(f"@{k}", f"@{k}") for k in cutoffs))
    title = "share of common units by top_k"
    return [Sheet(title, columns, [*pairs.values()], notes=notes, name="overlaps")] if rows else []


def _speed(result: EvaluationResult, title: str) -> Sheet:
    speed = result.speed
    rows = [{"retriever": name, "speed": speed.get(name)} for name in result.run_retrievers]
    columns = (Column("retriever", "retriever", TEXT), Column("speed", "ms/query", ".2f"))
    return Sheet(title, columns, rows, name="speed")


def similarity_sheet(result: EvaluationResult, rows: Sequence[Row]) -> Sheet | None:
    """Return a row a reranked retriever of these of one cut-off; None without `mmr`.

    A value is the mean, over all queries with two results or more, of the mean cosine of all pairs
    of results: lower is more diverse.
    """
    top_k = rows[0]["top_k"]
    tables = result.list_similarities(top_k)
    measures = ("similarity", "input_similarity")
    lines = [
        {"retriever": name, **{key: mean(tables[name][key].to_pylist()) for key in measures}}
        for name in (row["retriever"] for row in rows)
        if name in tables
    ]
    columns = (
        Column("retriever", "retriever", TEXT),
        Column("similarity", "similarity"),
        Column("input_similarity", "of its input"),
    )
    title = f"how similar the results of a query are at top_k {top_k} (mean cosine of all pairs)"
    return Sheet(title, columns, lines) if lines else None


def overlaps(result: EvaluationResult) -> Row | None:
    """Return the sheets of the section; None with labels."""
    if result.has_metrics:
        return None
    speed = _speed(result, "") if result.speed else None
    return {"sheets": pair_sheets(overlap_rows(result)), "speed": speed}
