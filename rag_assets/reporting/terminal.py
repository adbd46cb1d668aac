"""The leaderboard as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_assets.evaluation.leaderboard import TIE
from rag_assets.evaluation.metric_names import MEASURES
from rag_assets.reporting.answerability_view import answerability_parts
from rag_assets.reporting.result import EvaluationResult
from rag_assets.reporting.rows import Row
from rag_assets.reporting.slices import TAG, Slice


def leaderboard_view(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return the tables of an evaluation: one cut-off in full, then the primary metric over all.

    Args:
        result: the evaluation.
        rows: its selected cells, best retriever first.
    """
    measure, cutoff = result.primary
    cutoffs = sorted({int(str(row["top_k"])) for row in rows})
    shown = cutoff if cutoff in cutoffs else cutoffs[-1]
    at_cutoff = [row for row in rows if row["top_k"] == shown]
    parts: list[RenderableType] = [_title(result, at_cutoff, shown), _cells(result, at_cutoff)]
    if len(cutoffs) > 1:
        parts += ["", _heading(f"{measure} by top_k"), _curve(rows, measure, cutoffs)]
    return Group(*parts, *answerability_parts(result, at_cutoff), *(_warnings(at_cutoff)))


def _title(result: EvaluationResult, rows: Sequence[Row], top_k: int) -> Text:
    n_queries, unanswerable = rows[0]["n_queries"], rows[0]["n_unanswerable"]
    title = f"{result.evaluation.experiment}: top_k {top_k}, mean over {n_queries} queries"
    return _heading(f"{title} ({unanswerable} unanswerable left out)" if unanswerable else title)


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _cells(result: EvaluationResult, rows: Sequence[Row]) -> Table:
    measures = [name for name in MEASURES if name in rows[0]]
    speed = result.milliseconds_per_query()
    # One blank between columns: six metrics, tokens and a short name fit into 80 characters.
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    _number_column(table, "#")
    table.add_column("retriever", overflow="fold")
    for name in measures:
        _number_column(table, f"{name}*" if name == result.primary.measure else name)
    has_tokens = any("tokens" in row for row in rows)
    if has_tokens:
        _number_column(table, f"tokens@{rows[0]['top_k']}")
    _number_column(table, "ms/query")
    best = {name: max(_number(row, name) for row in rows) for name in measures}
    for row in rows:
        values = [_value(_number(row, name), best[name]) for name in measures]
        retriever = str(row["retriever"])
        took = f"{speed[retriever]:.2f}" if retriever in speed else ""
        tokens = [f"{_number(row, 'tokens'):.0f}"] if has_tokens else []
        table.add_row(str(row["position"]), retriever, *values, *tokens, took)
    return table


def _curve(rows: Sequence[Row], measure: str, cutoffs: Sequence[int]) -> Table:
    table = _table()
    table.add_column("retriever", overflow="fold")
    for cutoff in cutoffs:
        _number_column(table, f"@{cutoff}")
    cells = {(row["retriever"], row["top_k"]): row.get(measure) for row in rows}
    names = list(dict.fromkeys(str(row["retriever"]) for row in rows))
    for name in names:
        values = []
        for cutoff in cutoffs:
            column = [v for n in names if isinstance(v := cells.get((n, cutoff)), float)]
            value = cells.get((name, cutoff))
            values.append(_value(value, max(column)) if isinstance(value, float) else Text("-"))
        table.add_row(name, *values)
    return table


def slices_view(slices: Sequence[Slice], metric: str, by: str = TAG) -> RenderableType:
    """Return one table: a row a slice, a column a retriever, the best of each row marked."""
    names = list(slices[0].means)
    table = _table()
    table.add_column(by, overflow="fold")
    _number_column(table, "queries")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for one in slices:
        values = [_value(one.means[name], one.best) for name in names]
        table.add_row(one.value, str(one.n_queries), *values)
    return Group(_heading(f"{metric} by {'query tag' if by == TAG else by}"), table)


def _table() -> Table:
    return Table(box=None, pad_edge=False)


def _number_column(table: Table, name: str) -> None:
    """Add a column that stays whole when a long name makes the table too wide."""
    table.add_column(name, justify="right", no_wrap=True)


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else float("-inf")


def _value(value: float, best: float) -> Text:
    """Return a value with four decimals; the best is bold where there is colour."""
    return Text(f"{value:.4f}", style="bold green" if value >= best - TIE else "")


def _warnings(rows: Iterable[Row]) -> list[str]:
    """Return lines on what a mean does not show."""
    lines = []
    for row in rows:
        if row["n_empty"]:
            lines.append(
                f"{row['retriever']}: nothing retrieved for {row['n_empty']} queries, which count 0"
            )
        if row["n_unreachable"]:
            lines.append(
                f"{row['retriever']}: {row['n_unreachable']} evidences lie in no chunk, "
                "and stay in the denominator of recall"
            )
    return ["", *lines] if lines else []
