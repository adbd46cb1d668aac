"""The leaderboard as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_assets.evaluation.leaderboard import TIE
from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.evaluation.query_facts import ALL, TEST
from rag_assets.plain_text import one_line
from rag_assets.report.analyzer_advice import likely_cause
from rag_assets.report.answerability_view import answerability_parts
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.noise import SIGN, interval_parts, near_best
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row
from rag_assets.report.similarity_view import similarity_parts
from rag_assets.report.slices import TAG, Slice

MATTERS = 0.05
"""Ties are spoken of from this share of the averaged queries on."""


def leaderboard_view(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return the tables of an evaluation: one cut-off in full, then the primary metric over all.

    Args:
        result: the evaluation.
        rows: its selected cells, best retriever first.
    """
    measure, cutoff = result.primary.column, result.primary.cutoff
    cutoffs = sorted({int(str(row["top_k"])) for row in rows})
    shown = cutoff if cutoff in cutoffs else cutoffs[-1]
    at_cutoff = [row for row in rows if row["top_k"] == shown]
    parts: list[RenderableType] = [_title(result, at_cutoff, shown), _cells(result, at_cutoff)]
    if len(cutoffs) > 1:
        parts += ["", _heading(f"{measure} by top_k"), _curve(rows, measure, cutoffs)]
    parts += [*interval_parts(result, rows), *answerability_parts(result, at_cutoff)]
    parts += similarity_parts(result, at_cutoff)
    return Group(*parts, *(_warnings(result, at_cutoff)))


def _title(result: EvaluationResult, rows: Sequence[Row], top_k: int) -> Text:
    fullest = max(rows, key=lambda row: int(str(row["n_queries"])))
    n_queries, unanswerable = fullest["n_queries"], fullest["n_unanswerable"]
    where = f"{fullest['split']}, " if fullest["split"] != ALL else ""
    means = "mean" if fullest["weight"] == n_queries else "weighted mean"
    name = result.evaluation.experiment
    title = f"{name}: {where}top_k {top_k}, {means} over {n_queries} queries"
    return _heading(f"{title} ({unanswerable} unanswerable left out)" if unanswerable else title)


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _cells(result: EvaluationResult, rows: Sequence[Row]) -> Table:
    measures = metric_columns(rows[0])
    speed = result.milliseconds_per_query()
    # One blank between columns: six metrics, tokens and a short name fit into 80 characters.
    primary = f"{result.primary.column}*"
    table = FittedTable(kept=[primary], narrow=True)
    _number_column(table, "#")
    table.add_column("retriever", overflow="fold")
    for name in measures:
        _number_column(table, primary if name == result.primary.column else name)
    has_tokens = any("tokens" in row for row in rows)
    if has_tokens:
        _number_column(table, f"tokens@{rows[0]['top_k']}")
    _number_column(table, "ms/query")
    near = near_best(result, rows)
    ranked = [row for row in rows if row["position"] is not None]
    best = {name: max((_number(row, name) for row in ranked), default=inf) for name in measures}
    for row in rows:
        values = [_value(_number(row, name), best[name]) for name in measures]
        retriever = str(row["retriever"])
        took = f"{speed[retriever]:.2f}" if retriever in speed else "-"
        position = "-" if row["position"] is None else str(row["position"])
        sign = SIGN if retriever in near else " " if near else ""
        tokens = [rounded(row.get("tokens"))] if has_tokens else []
        table.add_row(f"{position}{sign}", f"{retriever}{_mark(row)}", *values, *tokens, took)
    return table


def _curve(rows: Sequence[Row], measure: str, cutoffs: Sequence[int]) -> Table:
    table = _table()
    table.add_column("retriever", overflow="fold")
    for cutoff in cutoffs:
        _number_column(table, f"@{cutoff}")
    cells = {(str(row["retriever"]), row["top_k"]): row for row in rows}
    for name in dict.fromkeys(str(row["retriever"]) for row in rows):
        values = []
        for cutoff in cutoffs:
            column = [
                _number(row, measure)
                for (_, k), row in cells.items()
                if k == cutoff and row["position"] is not None
            ]
            row = cells.get((name, cutoff), {})
            best = max(column, default=inf)
            values.append(_value(_number(row, measure), best).append(_mark(row)))
        table.add_row(name, *values)
    return table


def _mark(row: Row) -> str:
    """Return the mark of a cell whose means leave out queries on which the retriever failed."""
    return " !" if row.get("n_failed") else ""


def slices_view(
    slices: Sequence[Slice], metric: str, by: str = TAG, split: str = ALL
) -> RenderableType:
    """Return one table: a row a slice, a column a retriever, the best of each row marked."""
    names = list(slices[0].means)
    table = _table()
    table.add_column(by, overflow="fold")
    _number_column(table, "queries")
    for name in names:
        table.add_column(name, justify="right", overflow="fold", min_width=6)
    for one in slices:
        found = [one.means[name] for name in names]
        values = [_value(-inf if value is None else value, one.best) for value in found]
        table.add_row(one_line(one.value), str(one.n_queries), *values)
    where = "" if split == ALL else f", {split}"
    return Group(_heading(f"{metric} by {'query tag' if by == TAG else by}{where}"), table)


def _table() -> Table:
    return FittedTable()


def _number_column(table: Table, name: str) -> None:
    """Add a column that is whole, or left out."""
    table.add_column(name, justify="right", no_wrap=True)


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else -inf


def _value(value: float, best: float) -> Text:
    """Return a value with four decimals, the best bold where there is colour; "-" for none."""
    if value == -inf:
        return Text("-")
    return Text(f"{value:.4f}", style="bold green" if value >= best - TIE else "")


def rounded(value: object, decimals: int = 0) -> str:
    """Return a number as it is shown; "-" for a mean over nothing."""
    return f"{value:.{decimals}f}" if isinstance(value, int | float) else "-"


def _warnings(result: EvaluationResult, rows: Iterable[Row]) -> list[str]:
    """Return lines on what a mean does not show."""
    lines = []
    for row in rows:
        if row["position"] is None:
            lines.append(
                f"{row['retriever']}: not ranked, its parameters were chosen on {row['split']}; "
                f"`--split {TEST}` ranks it"
            )
        if row["n_failed"]:
            lines.append(
                f"{row['retriever']} !: failed on {row['n_failed']} of {row['n_attempted']} "
                "queries, which are in no mean"
            )
        if row["n_empty"]:
            lines.append(
                f"{row['retriever']}: nothing retrieved for {row['n_empty']} queries; "
                "those with a relevant document count 0" + likely_cause(result, *_empty(row))
            )
        tied = row.get("n_tied")
        if isinstance(tied, int) and tied > MATTERS * int(str(row["n_queries"])):
            lines.append(
                f"{row['retriever']}: equal scores on both sides of the cut in {tied} of "
                f"{row['n_queries']} queries; `leaderboard --ties` shows what their order is worth"
            )
        if row["n_unreachable"]:
            absent = row.get("n_not_in_corpus")
            of_them = f" ({absent} of them in no document of the corpus)" if absent else ""
            lines.append(
                f"{row['retriever']}: {row['n_unreachable']} evidences lie in no chunk{of_them}, "
                "and stay in the denominator of recall"
            )
    return ["", *lines] if lines else []


def _empty(row: Row) -> tuple[str, int, int]:
    return str(row["retriever"]), int(str(row["n_empty"])), int(str(row["n_attempted"]))
