"""Comparisons as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rag_assets.pipeline.shown import is_shown
from rag_assets.report.comparisons import Compared
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.interval_text import interval_name, interval_text
from rag_assets.report.rank_moves import Move, MovedQuery
from rag_assets.report.verdict import p_text, verdict
from rag_assets.statistics.detectable import ALPHA, POWER

SHOWN = "*"
"""Marks a difference that chance does not explain."""


def pairs_view(compared: Compared, rows: Sequence[dict[str, Any]]) -> RenderableType:
    """Return one table of several pairs, each read as "the first minus the second"."""
    table = FittedTable(kept=["difference"])
    table.add_column("retrievers", overflow="fold")
    adjusted = any(row["p_adjusted"] is not None for row in rows)
    names = ["difference", interval_name(compared.resampling.confidence), "p"]
    for name in [*names, *(["Holm"] if adjusted else []), "won", "lost"]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        pair = Text(f"{row['retriever_b']} - {row['retriever_a']}")
        numbers = [_signed(row["difference"]), interval_text(row), p_text(row["p_randomisation"])]
        numbers += [p_text(row["p_adjusted"])] if adjusted else []
        mark = SHOWN if is_shown(row) else " "
        counts = [str(row["won"]), str(row["lost"])]
        table.add_row(pair, f"{numbers[0]}{mark}", *numbers[1:], *counts)
    legend = f"{SHOWN} p < {ALPHA}{' after Holm over these pairs' if adjusted else ''}"
    return Group(_title(compared, "pairs of retrievers"), table, "", legend)


def pair_view(
    compared: Compared,
    row: dict[str, Any],
    moved: tuple[Sequence[MovedQuery], Sequence[MovedQuery]],
) -> RenderableType:
    """Return everything on one pair: means, tests, the verdict, and the queries that moved most."""
    a, b = str(row["retriever_a"]), str(row["retriever_b"])
    n_pairs = len(compared.family)
    parts: list[RenderableType] = [
        _title(compared, f"{b} against {a}"),
        _means(compared, a, b),
        "",
        _numbers(row, compared.resampling.confidence, n_pairs),
        "",
        Text(verdict(row, n_pairs, compared.caveat), style="bold"),
    ]
    for heading, queries in zip((f"most won by {b}", f"most lost by {b}"), moved, strict=True):
        if queries:
            parts += ["", Text(heading, style="bold"), *(_moved(query, a, b) for query in queries)]
    return Group(*parts)


def moves_view(
    compared: Compared, rows: Sequence[dict[str, Any]], a: str, b: str
) -> RenderableType:
    """Return a table, a row a query and relevant evidence, with its rank in either retriever."""
    table = FittedTable(kept=["outcome"])
    table.add_column("query", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("evidence", overflow="fold")
    for name in (a, b):
        table.add_column(Text(name), justify="right", overflow="fold", min_width=6)
    for row in rows:
        ranks = ["-" if row[name] is None else str(row[name]) for name in ("rank_a", "rank_b")]
        texts = [Text(str(row[name])) for name in ("query_id", "outcome", "evidence")]
        table.add_row(*texts[:2], _signed(row["difference"]), texts[2], *ranks)
    counts = {row["query_id"]: row["outcome"] for row in rows}
    of = [f"{list(counts.values()).count(name)} {name}" for name in ("won", "tied", "lost")]
    legend = f"queries of {b}: {', '.join(of)}; the last columns are ranks, - not retrieved"
    return Group(_title(compared, f"{b} against {a}"), table, "", Text(legend))


def _title(compared: Compared, what: str) -> Text:
    split = "" if compared.split == "all" else f", split {compared.split}"
    name = compared.result.evaluation.experiment
    return Text(f"{name}: {what} on {compared.metric}{split}", style="bold")


def _means(compared: Compared, a: str, b: str) -> Table:
    table = FittedTable(kept=["mean"])
    table.add_column("retriever", overflow="fold")
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column(interval_name(compared.resampling.confidence), justify="right", no_wrap=True)
    for name, found in compared.mean_intervals(a, b).items():
        mean = "-" if found["mean"] is None else f"{found['mean']:.4f}"
        table.add_row(Text(name), mean, interval_text(found))
    return table


def _numbers(row: dict[str, Any], confidence: float, n_pairs: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    difference = f"{_signed(row['difference'])}, {interval_name(confidence)} {interval_text(row)}"
    holm = ""
    if row["p_adjusted"] is not None and n_pairs > 1:
        holm = f"; Holm over {n_pairs} pairs: {p_text(row['p_adjusted'])}"
    others = f"t-test {p_text(row['p_t'])}, Wilcoxon {p_text(row['p_wilcoxon'])}"
    clusters = f" in {row['n_clusters']} clusters" if row["n_clusters"] < row["n"] else ""
    counts = f"{row['won']} won, {row['tied']} tied, {row['lost']} lost"
    smallest = "-" if row["detectable"] is None else f"{row['detectable']:.4f}"
    effect = "-" if row["effect_size"] is None else f"{row['effect_size']:+.3f}"
    for name, text in {
        "difference": difference,
        "p": f"{p_text(row['p_randomisation'])} (randomisation){holm}",
        "other tests": others,
        "effect size": f"{effect} (Cohen's d_z)",
        "detectable": f"{smallest} at level {ALPHA} with power {POWER}",
        "queries": f"{row['n']}{clusters}: {counts}",
    }.items():
        table.add_row(name, text)
    return table


def _moved(query: MovedQuery, a: str, b: str) -> RenderableType:
    head = f"{query.value_b - query.value_a:+.4f} {query.query_id}: {' '.join(query.text.split())}"
    lines = [Text(_move(move, a, b)) for move in query.moves]
    return Group(Text(head), *(Padding(line, (0, 0, 0, 8)) for line in lines))


def _move(move: Move, a: str, b: str) -> str:
    return f"{move.evidence}: {_rank(move.rank_a)} in {a} -> {_rank(move.rank_b)} in {b}"


def _rank(rank: int | None) -> str:
    return "not retrieved" if rank is None else str(rank)


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"
