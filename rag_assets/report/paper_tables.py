"""Means for a paper: LaTeX with bold best values and letters of who is shown to be better."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rag_assets.evaluation.metric_names import best_value, is_gain, metric_columns
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.score import RunScores
from rag_assets.report.comparison_views import sentence
from rag_assets.report.comparisons import Compared
from rag_assets.report.formats import latex_table, latex_text
from rag_assets.statistics.comparisons import all_pairs, is_significant
from rag_assets.statistics.paired_tests import ALPHA

Row = Mapping[str, Any]

Values = Mapping[str, Mapping[str, float | None]]
"""Name of a row -> column -> value."""

Better = Mapping[str, Mapping[str, Collection[str]]]
"""Name of a row -> column -> the rows that it is shown to be better than there."""


def runs_table(scores: RunScores) -> str:
    """Return runs and metrics; every metric was tested as a family of its own."""
    values: dict[str, dict[str, Any]] = {}
    for row in scores.means:
        values.setdefault(str(row["run"]), {})[str(row["metric"])] = row["mean"]
    better: dict[str, dict[str, list[str]]] = {name: {} for name in values}
    for row in scores.pairs:
        _add(better, row, str(row["run_a"]), str(row["run_b"]), str(row["metric"]))
    n_pairs = len(all_pairs(list(values)))
    caption = _caption(f"Means over {scores.n_queries} queries.", "", n_pairs, scores.caveat)
    return score_table(values, scores.metrics, better, caption)


def board_table(compared: Compared, rows: Sequence[Row], names: Mapping[str, str]) -> str:
    """Return the retrievers of a leaderboard at its primary cut-off."""
    cutoff = compared.metric.cutoff
    cutoffs = {row["top_k"] for row in rows}
    top_k = cutoff if cutoff in cutoffs else max(cutoffs)
    chosen = [row for row in rows if row["top_k"] == top_k]
    measures = metric_columns(chosen[0])
    labels = {row["retriever"]: names.get(row["retriever"], row["retriever"]) for row in chosen}
    values = {labels[row["retriever"]]: {m: row.get(m) for m in measures} for row in chosen}
    better: dict[str, dict[str, list[str]]] = {name: {} for name in values}
    pairs = all_pairs(list(compared.cells)) if cutoff in cutoffs else []
    for row in compared.rows(pairs) if pairs else []:
        a, b = (labels.get(str(row[f"retriever_{side}"])) for side in "ab")
        if a is not None and b is not None:
            _add(better, row, a, b, compared.metric.column)
    n_queries = max(row["n_queries"] for row in chosen)
    split = "" if compared.split == ALL else f", {compared.split} split"
    name = compared.result.evaluation.experiment
    means = f"{name}{split}: means over {n_queries} queries at cut-off {top_k}."
    caption = f"{means} Bold: the best of a column."
    if len(compared.cells) > 1:
        by = f" by {compared.metric.column}"
        caption = _caption(means, by, len(compared.family), compared.caveat)
    return score_table(values, measures, better, caption)


def _add(better: dict[str, dict[str, list[str]]], row: Row, a: str, b: str, metric: str) -> None:
    """Note who is better, where that is shown."""
    if row["difference"] is not None and is_significant(dict(row)):
        above, below = (b, a) if is_gain(metric, row["difference"]) else (a, b)
        better[above].setdefault(metric, []).append(below)


def _caption(means: str, by: str, n_pairs: int, caveat: str | None) -> str:
    holm = f", Holm over {n_pairs} pairs" if n_pairs > 1 else ""
    letters = f"Raised letters: better{by} than the row of that letter"
    test = f"two-sided paired randomisation test{holm}, p < {ALPHA}"
    return f"{means} Bold: the best of a column. {letters} ({test}).{sentence(caveat)}"


def score_table(values: Values, columns: Sequence[str], better: Better, caption: str) -> str:
    """Return a table with a letter a row, in the order given.

    The best value of a column is bold; equal ones to four decimals are bold alike. Raised
    letters name the rows that a value is shown to be better than.
    """
    is_lettered = len(values) <= len(string.ascii_lowercase)
    numbers = map(str, range(1, len(values) + 1))
    letter_of = dict(zip(values, string.ascii_lowercase if is_lettered else numbers, strict=False))
    best = {column: _best(values, column) for column in columns}
    lines = []
    for name, row in values.items():
        cells = [f"\\textit{{{letter_of[name]}}}", latex_text(name)]
        for column in columns:
            worse = better.get(name, {}).get(column, ())
            raised = [letter_of[other] for other in values if other in worse]
            marks = ("" if is_lettered else ",").join(raised)
            cells.append(_value(row.get(column), best[column], marks))
        lines.append(cells)
    head = ["", "", *map(latex_text, columns)]
    return latex_table(head, "ll" + "r" * len(columns), lines, caption)


def _best(values: Values, column: str) -> str | None:
    """Return the best value as it is shown."""
    best = best_value(column, (row.get(column) for row in values.values()))
    return None if best is None else f"{best:.4f}"


def _value(value: float | None, best: str | None, raised: str) -> str:
    if value is None:
        return "--"
    shown = f"{value:.4f}"
    text = f"\\textbf{{{shown}}}" if shown == best else shown
    return f"{text}$^{{{raised}}}$" if raised else text
