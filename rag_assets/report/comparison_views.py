"""Comparisons of retrievers as they are shown: for a terminal, on the page, and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.evaluation.metric_names import highest_value
from rag_assets.plain_text import printable
from rag_assets.report.answer_moves import MovedAnswer, answer_text
from rag_assets.report.comparisons import Compared, power_text
from rag_assets.report.formats import interval_name, interval_text, p_text, signed_text
from rag_assets.report.metric_choice import check_names, is_of_answers, named, noun
from rag_assets.report.notebook import (
    Cell,
    Shown,
    Tabular,
    colours,
    figure,
    plain,
    whiskers,
    words,
)
from rag_assets.report.rank_moves import Move, MovedQuery
from rag_assets.report.result import EvaluationResult
from rag_assets.report.shown_names import shown_rows
from rag_assets.report.terminal_table import FittedTable, plain_cell, title_line
from rag_assets.report.view import Context, View
from rag_assets.schemas import ANSWER_COMPARISONS, COMPARISONS
from rag_assets.statistics.pairs import all_pairs
from rag_assets.statistics.significance import is_significant
from rag_assets.statistics.t_test import ALPHA, POWER

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN = "*"
"""Marks a difference that chance does not explain."""


def pairs_view(compared: Compared, rows: Sequence[dict[str, Any]]) -> RenderableType:
    """Return one table of several pairs, each read as "the first minus the second"."""
    table = FittedTable(required=["difference"])
    table.text_column(f"{noun(compared.metric)}s")
    adjusted = any(row["p_adjusted"] is not None for row in rows)
    names = ["difference", interval_name(compared.resampling.confidence), "p"]
    for name in [*names, *(["Holm"] if adjusted else []), "won", "lost"]:
        table.number_column(name)
    for row in rows:
        pair = Text(f"{row['retriever_b']} - {row['retriever_a']}")
        numbers = [signed_text(row["difference"]), interval_text(row)]
        numbers += [p_text(row["p_randomisation"])]
        numbers += [p_text(row["p_adjusted"])] if adjusted else []
        mark = SHOWN if is_significant(row) else " "
        counts = [str(row["won"]), str(row["lost"])]
        table.add_row(pair, f"{numbers[0]}{mark}", *numbers[1:], *counts)
    legend = f"{SHOWN} p < {ALPHA}{' after Holm over these pairs' if adjusted else ''}"
    return Group(_title(compared, f"pairs of {noun(compared.metric)}s"), table, "", legend)


def pair_view(
    compared: Compared,
    row: dict[str, Any],
    moved: tuple[Sequence[MovedQuery | MovedAnswer], Sequence[MovedQuery | MovedAnswer]],
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
        title_line(compared.verdict(row)),
    ]
    for heading, queries in zip((f"most won by {b}", f"most lost by {b}"), moved, strict=True):
        if queries:
            parts += ["", title_line(heading), *(_moved(query, a, b) for query in queries)]
    return Group(*parts)


def moves_view(
    compared: Compared, rows: Sequence[dict[str, Any]], a: str, b: str
) -> RenderableType:
    """Return a table, a row a query and relevant evidence, with its rank in either retriever."""
    table = FittedTable(required=["outcome"])
    table.text_column("query")
    table.add_column("outcome", no_wrap=True)
    table.number_column("difference")
    table.text_column("evidence")
    for name in (a, b):
        table.add_column(Text(name), justify="right", overflow="fold", min_width=6)
    for row in rows:
        ranks = ["-" if row[name] is None else str(row[name]) for name in ("rank_a", "rank_b")]
        texts = [Text(str(row[name])) for name in ("query_id", "outcome", "evidence")]
        table.add_row(*texts[:2], signed_text(row["difference"]), texts[2], *ranks)
    counts = {row["query_id"]: row["outcome"] for row in rows}
    of = [f"{list(counts.values()).count(name)} {name}" for name in ("won", "tied", "lost")]
    legend = f"queries of {b}: {', '.join(of)}; the last columns are ranks, - not retrieved"
    return Group(_title(compared, f"{b} against {a}"), table, "", Text(legend))


def answer_moves_view(
    compared: Compared, rows: Sequence[dict[str, Any]], a: str, b: str
) -> RenderableType:
    """Return a table, a row a question, with what either answerer answers."""
    table = FittedTable(required=["outcome"])
    table.text_column("question")
    table.add_column("outcome", no_wrap=True)
    table.number_column("difference")
    for name in ("right", a, b):
        table.add_column(Text(name), overflow="fold", min_width=8)
    for row in rows:
        texts = [
            _right(row["golds"], row["unanswerable"]),
            *(answer_text(row[name]) for name in ("answer_a", "answer_b")),
        ]
        table.add_row(
            plain_cell(row["query_id"]),
            row["outcome"],
            signed_text(row["difference"]),
            *(plain_cell(text) for text in texts),
        )
    return Group(_title(compared, f"{b} against {a}"), table)


def _title(compared: Compared, what: str) -> Text:
    split = "" if compared.split == "all" else f", split {compared.split}"
    name = compared.result.evaluation.experiment
    return title_line(f"{name}: {what} on {compared.metric}{split}")


def _means(compared: Compared, a: str, b: str) -> Table:
    table = FittedTable(required=["mean"])
    table.text_column(noun(compared.metric))
    table.number_column("mean")
    table.number_column(interval_name(compared.resampling.confidence))
    for name, interval in compared.mean_intervals(a, b).items():
        mean = "-" if interval["mean"] is None else f"{interval['mean']:.4f}"
        table.add_row(Text(name), mean, interval_text(interval))
    return table


def _numbers(row: dict[str, Any], confidence: float, n_pairs: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    interval = f"{interval_name(confidence)} {interval_text(row)}"
    holm = ""
    if row["p_adjusted"] is not None and n_pairs > 1:
        holm = f"; Holm over {n_pairs} pairs: {p_text(row['p_adjusted'])}"
    others = f"t-test {p_text(row['p_t'])}, Wilcoxon {p_text(row['p_wilcoxon'])}"
    clusters = f" in {row['n_clusters']} clusters" if row["n_clusters"] < row["n"] else ""
    counts = f"{row['won']} won, {row['tied']} tied, {row['lost']} lost"
    effect = "-" if row["effect_size"] is None else f"{row['effect_size']:+.3f}"
    smallest = row["detectable"]
    can_show = smallest is not None and smallest <= highest_value(row["metric"])
    power = (
        {"detectable": f"{smallest:.4f} at level {ALPHA} with power {POWER}"} if can_show else {}
    )
    for name, text in {
        "difference": f"{signed_text(row['difference'])}, {interval}",
        "p": f"{p_text(row['p_randomisation'])} (randomisation){holm}",
        "other tests": others,
        "effect size": f"{effect} (Cohen's d_z)",
        **power,
        "queries": f"{row['n']}{clusters}: {counts}",
    }.items():
        table.add_row(name, text)
    return table


def _right(golds: Sequence[str], unanswerable: bool) -> str:
    return " | ".join(golds) or ("(unanswerable)" if unanswerable else "(not labelled)")


def _moved(query: MovedQuery | MovedAnswer, a: str, b: str) -> RenderableType:
    head = f"{query.value_b - query.value_a:+.4f} {query.query_id}: {' '.join(query.text.split())}"
    if isinstance(query, MovedAnswer):
        answers = {"right": _right(query.golds, query.unanswerable)}
        answers |= {a: answer_text(query.answer_a), b: answer_text(query.answer_b)}
        lines = [Text(printable(f"{name}: {text}")) for name, text in answers.items()]
        return Group(Text(printable(head)), *(Padding(line, (0, 0, 0, 8)) for line in lines))
    lines = [Text(_move(move, a, b)) for move in query.moves]
    return Group(Text(head), *(Padding(line, (0, 0, 0, 8)) for line in lines))


def _move(move: Move, a: str, b: str) -> str:
    return f"{move.evidence}: {_rank(move.rank_a)} in {a} -> {_rank(move.rank_b)} in {b}"


def _rank(rank: int | None) -> str:
    return "not retrieved" if rank is None else str(rank)


def significance(view: View) -> Context | None:
    """Return the matrix of differences, row minus column; None where nothing was compared."""
    if not view.comparisons:
        return None
    compared = {row[side] for row in view.comparisons for side in ("retriever_a", "retriever_b")}
    names = [name for name in view.retrievers if name in compared]
    matrix = {name: [against(view, name, other) for other in names] for name in names}
    pairs = [
        {"one": name, **cell}
        for number, name in enumerate(names)
        for cell in matrix[name][number + 1 :]
        if cell is not None
    ]
    largest = max((abs(pair["difference"]) for pair in pairs), default=0.0)
    return {
        "names": names,
        "matrix": matrix,
        "pairs": pairs,
        "largest": largest or 1.0,
        "alpha": ALPHA,
        "n_pairs": view.n_pairs,
        "confidence": view.confidence,
    }


def against(view: View, one: str, other: str) -> Context | None:
    """Return how far ``one`` is above ``other``; None where the two were not compared."""
    for row in view.comparisons:
        if {one, other} == {row["retriever_a"], row["retriever_b"]} and one != other:
            if row["difference"] is None:
                return None
            sign = 1 if row["retriever_b"] == one else -1
            bounds = [row["low"], row["high"]][::sign]
            return {
                "other": other,
                "difference": sign * row["difference"],
                "low": None if row["low"] is None else sign * bounds[0],
                "high": None if row["low"] is None else sign * bounds[1],
                "p": p_text(row["p_randomisation"]),
                "holm": p_text(row["p_adjusted"]) if row["p_adjusted"] is not None else None,
                "shown": is_significant(row),
                "won": row["won"] if sign == 1 else row["lost"],
                "tied": row["tied"],
                "lost": row["lost"] if sign == 1 else row["won"],
                "n": row["n"],
                "n_clusters": row["n_clusters"],
                "detectable": row["detectable"],
                "power": power_text(row),
            }
    return None


Row = dict[str, Any]


class Comparison(Tabular):
    """Pairs of retrievers on the same queries; each difference is the second minus the first."""

    def __init__(self, compared: Compared, rows: Sequence[Row]) -> None:
        """Hold rows of :data:`rag_assets.schemas.COMPARISONS`, and what they were made from."""
        self.compared = compared
        self.rows = list(rows)

    @classmethod
    def of(
        cls,
        result: EvaluationResult,
        retrievers: Sequence[str] = (),
        metric: str | None = None,
        split: str | None = None,
    ) -> Comparison:
        """Compare two retrievers of an evaluation, or all pairs.

        Args:
            result: the evaluation; nothing is searched again.
            retrievers: two names, or none for all pairs; answerers are ``plain@5``.
            metric: such as ``recall@10`` or ``answer_f1``; the primary metric when absent, of
                answerers their headline.
            split: whose queries; the one to show when absent.

        Raises:
            UsageError: not two retrievers, an unknown metric or split.
            NotEvaluated: no labels, no such retriever, or no such cell.
        """
        if len(retrievers) not in (0, 2) or (retrievers and retrievers[0] == retrievers[1]):
            raise UsageError("compare takes two different retrievers, or none for all pairs")
        name = result.evaluation.experiment
        chosen = result.chosen_metric(metric, retrievers)
        check_names(chosen, retrievers)
        compared = Compared.of(result, chosen, split)
        pairs = [(retrievers[0], retrievers[1])] if retrievers else None
        rows = compared.rows(pairs or all_pairs(list(compared.cells)))
        if not rows:
            raise NotEvaluated(f"the last evaluation of {name} has no pair to compare")
        return cls(compared, rows)

    @property
    def verdicts(self) -> list[str]:
        """A sentence a pair, which claims no more than was shown."""
        return [self.compared.verdict(row) for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """Return a table of COMPARISONS or ANSWER_COMPARISONS of :mod:`rag_assets.schemas`."""
        metric = self.compared.metric
        schema = ANSWER_COMPARISONS if is_of_answers(metric) else COMPARISONS
        rows = [named(row, metric) for row in self.rows]
        return pa.Table.from_pylist(rows, schema=schema.arrow())

    def plot(self, *, dark: bool = False) -> go.Figure:
        """Return a figure of the differences with their intervals.

        Args:
            dark: for a dark page.
        """
        return _figure(self, dark)

    def _shown(self) -> list[Shown]:
        return [_shown(self)]


def _shown(comparison: Comparison) -> Shown:
    """Return a row a pair, and of one pair the verdict in words."""
    compared = comparison.compared
    of = "" if compared.split == "all" else f", {compared.split} split"
    title = f"{compared.result.evaluation.experiment}: differences in {compared.metric}{of}"
    adjusted = any(row["p_adjusted"] is not None for row in comparison.rows)
    interval = interval_name(compared.resampling.confidence)
    headings = ["pair", "difference", interval, "p", *(["Holm"] if adjusted else [])]
    named_rows = shown_rows(comparison.rows, compared.result.evaluation.display_names)
    rows = [_cells(row, adjusted) for row in named_rows]
    verdicts = [compared.verdict(row) for row in named_rows] if len(rows) == 1 else []
    after = " after Holm over all pairs" if adjusted else ""
    notes = [f"* p < {ALPHA}{after}: unlikely to be chance", *compared.notes]
    return Shown(title, [*headings, "won", "tied", "lost"], rows, verdicts, notes)


def _cells(row: Row, adjusted: bool) -> list[Cell]:
    mark = "*" if is_significant(row) else ""
    texts = [
        f"{signed_text(row['difference'])}{mark}",
        "" if row["low"] is None else f"{signed_text(row['low'])} to {signed_text(row['high'])}",
        p_text(row["p_randomisation"]),
        *([p_text(row["p_adjusted"])] if adjusted else []),
        *(str(row[name]) for name in ("won", "tied", "lost")),
    ]
    return [words(_pair(row)), *map(Cell, texts)]


def _pair(row: Row) -> str:
    return f"{row['retriever_b']} - {row['retriever_a']}"


def _figure(comparison: Comparison, dark: bool) -> go.Figure:
    """Return a point a pair with its interval; filled where the difference is real."""
    rows = [row for row in comparison.rows if row["difference"] is not None][::-1]
    values: list[float | None] = [row["difference"] for row in rows]
    palette = colours(dark)
    shown = [is_significant(row) for row in rows]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": values,
        "y": [plain(_pair(row)) for row in rows],
        "error_x": whiskers(
            values, [row["low"] for row in rows], [row["high"] for row in rows], dark
        ),
        "marker": {
            "size": 11,
            "color": [palette["c0"] if one else palette["page"] for one in shown],
            "line": {"width": 2, "color": palette["c0"]},
        },
        "customdata": [["real" if one else "not shown"] for one in shown],
        "hovertemplate": "%{y}<br>%{x:+.4f}, %{customdata[0]}<extra></extra>",
    }
    metric = plain(str(comparison.compared.metric))
    return figure(
        [trace],
        dark,
        title=f"Differences in {metric}; filled: real",
        height=150 + 34 * len(rows),
        xaxis={"title": {"text": f"difference in {metric}"}, "zeroline": True, "zerolinewidth": 2},
        yaxis={"type": "category", "range": [-0.7, len(rows) - 0.3]},
    )
