"""The leaderboard at a context budget, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_assets.evaluation.leaderboard import TIE
from rag_assets.evaluation.metric_names import MEASURES
from rag_assets.evaluation.query_facts import ALL
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row
from rag_assets.report.terminal import rounded


def budget_view(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return a table, a row a retriever, and a line on each whose run is too short or too long."""
    first = rows[0]
    split = "" if first["split"] == ALL else f"{first['split']}, "
    title = (
        f"{result.evaluation.experiment}: {split}at most {first['budget']} tokens a query, "
        f"mean over {first['n_queries']} queries"
    )
    return Group(Text(title, style="bold"), _table(result, rows), *_remarks(rows))


def _table(result: EvaluationResult, rows: Sequence[Row]) -> Table:
    measures = [name for name in rows[0] if name.partition("(")[0] in MEASURES]
    primary = f"{result.primary.measure}*"
    table = FittedTable(kept=[primary], narrow=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("retriever", overflow="fold")
    for name in measures:
        shown = primary if name == result.primary.measure else name
        table.add_column(shown, justify="right", no_wrap=True)
    table.add_column("units", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    best = {name: max(_number(row, name) for row in rows) for name in measures}
    for row in rows:
        values = [_value(_number(row, name), best[name]) for name in measures]
        spent = (rounded(row["units"], 1), rounded(row["tokens"]))
        position = "-" if row["position"] is None else str(row["position"])
        table.add_row(position, str(row["retriever"]), *values, *spent)
    return table


def _remarks(rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        if row["n_failed"]:
            lines.append(
                f"{row['retriever']}: failed on {_queries(row['n_failed'])}, which are in no mean"
            )
        if row["n_short"]:
            lines.append(
                f"{row['retriever']}: all {row['depth']} stored units of "
                f"{_queries(row['n_short'])} fit; a larger top_k might score more"
            )
        if row["n_nothing_fits"]:
            lines.append(
                f"{row['retriever']}: the first unit of {_queries(row['n_nothing_fits'])} alone "
                "exceeds the budget, so nothing is kept"
            )
    return ["", *lines] if lines else []


def _queries(count: object) -> str:
    return f"{count} query" if count == 1 else f"{count} queries"


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else float("-inf")


def _value(value: float, best: float) -> Text:
    if value == float("-inf"):
        return Text("-")
    return Text(f"{value:.4f}", style="bold green" if value >= best - TIE else "")
