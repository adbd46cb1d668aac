"""How alike the results of retrievers are, and those of one query among each other.

Overlaps are what an experiment without labels shows: rows for programs, tables for a terminal, and
a section of the page. Similarities within a list of results stand below a leaderboard with ``mmr``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from rag_assets.evaluation.leaderboard import mean
from rag_assets.pipeline.selection import Selection
from rag_assets.report.formats import Row
from rag_assets.report.metric_choice import SAMPLED
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import FittedTable, number_cell, title_line
from rag_assets.report.view import Context, View


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


def _labels(result: EvaluationResult) -> str:
    """Return which labels there are, and what they are good for."""
    if result.sampled_primary is None:
        return "no labels yet, so no metric"
    return f"labels of a sample, which estimate {result.sampled_primary.removeprefix(SAMPLED)}"


def overlaps_view(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return the tables of an evaluation without labels; no metric is among them.

    Args:
        result: the evaluation.
        rows: its selected pairs, as :func:`rag_assets.report.overlaps.overlap_rows` gives.
    """
    name, n_queries = result.evaluation.experiment, result.queries.num_rows
    parts: list[RenderableType] = [
        title_line(f"{name}: {_labels(result)}; {n_queries} queries"),
        _speed(result),
    ]
    if rows:
        cutoffs = sorted({int(str(row["top_k"])) for row in rows})
        headings = {
            "rbo": "rank-biased overlap (p = 0.9) by top_k",
            "overlap": "share of common units by top_k",
        }
        for measure, heading in headings.items():
            parts += ["", title_line(heading), _table(rows, cutoffs, measure)]
    if any(row["compared"] == "document" for row in rows):
        parts += ["", "* compared by documents: the two search different chunkings"]
    return Group(*parts)


def _speed(result: EvaluationResult) -> Table:
    table = FittedTable()
    table.text_column("retriever")
    table.number_column("ms/query")
    speed = result.milliseconds_per_query()
    for name in result.run_retrievers:
        table.add_row(name, f"{speed[name]:.2f}" if name in speed else "-")
    return table


def _table(rows: Sequence[Row], cutoffs: Sequence[int], measure: str) -> Table:
    table = FittedTable()
    table.text_column("retrievers")
    for cutoff in cutoffs:
        table.number_column(f"@{cutoff}")
    cells = {(row["retriever_a"], row["retriever_b"], row["top_k"]): row[measure] for row in rows}
    marks = {(row["retriever_a"], row["retriever_b"]): row["compared"] for row in rows}
    for pair, compared in marks.items():
        values = [cells.get((*pair, cutoff)) for cutoff in cutoffs]
        shown = map(number_cell, values)
        table.add_row(f"{pair[0]}, {pair[1]}{' *' if compared == 'document' else ''}", *shown)
    return table


def similarity_parts(result: EvaluationResult, shown: Sequence[Row]) -> list[RenderableType]:
    """Return a heading and a table, a row a reranked retriever; nothing without `mmr`.

    A value is the mean, over all queries with two results or more, of the mean cosine of all pairs
    of results: lower is more diverse.

    Args:
        result: the evaluation.
        shown: rows of one cut-off.
    """
    top_k = int(str(shown[0]["top_k"]))
    tables = result.list_similarities(top_k)
    names = [str(row["retriever"]) for row in shown if row["retriever"] in tables]
    if not names:
        return []
    table = FittedTable()
    table.text_column("retriever")
    table.number_column("similarity")
    table.number_column("of its input")
    for name in names:
        columns = (tables[name].column(one) for one in ("similarity", "input_similarity"))
        means = [mean(one.to_pylist()) for one in columns]
        table.add_row(name, *map(number_cell, means))
    heading = f"how alike the results of a query are at top_k {top_k} (mean cosine of all pairs)"
    return ["", title_line(heading), table]


def overlaps(view: View) -> Context | None:
    """Return a row a pair and cut-off; None with labels."""
    if view.result.has_metrics:
        return None
    return {"rows": overlap_rows(view.result), "speed": view.speed}
