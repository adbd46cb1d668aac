"""The tables that a paper has: a leaderboard, pairs, and runs, in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_assets.evaluation.metric_names import is_gain, metric_columns
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.score import RunScores
from rag_assets.report.comparisons import Compared
from rag_assets.report.formats import Row, interval_name, interval_text, p_text, signed_text
from rag_assets.report.latex import rows_table, score_table
from rag_assets.report.metric_choice import noun
from rag_assets.statistics.pairs import all_pairs
from rag_assets.statistics.significance import is_significant
from rag_assets.statistics.t_test import ALPHA

Names = Mapping[str, str]
"""Name -> how it is shown; what is not in it is shown as it is."""


def runs_table(scores: RunScores) -> str:
    """Return runs and metrics; every metric was tested as a family of its own."""
    values: dict[str, dict[str, Any]] = {}
    for row in scores.means:
        values.setdefault(str(row["run"]), {})[str(row["metric"])] = row["mean"]
    better: dict[str, dict[str, list[str]]] = {name: {} for name in values}
    for row in scores.pairs:
        _add(better, row, str(row["run_a"]), str(row["run_b"]), str(row["metric"]))
    n_pairs = len(all_pairs(list(values)))
    said = _said(f"Means over {scores.n_queries} queries.", "", n_pairs, scores.caveat)
    return score_table(values, scores.metrics, better, said)


def board_table(compared: Compared, rows: Sequence[Row], shown: Names) -> str:
    """Return the retrievers of a leaderboard at its primary cut-off.

    Args:
        compared: the evaluation, by its primary metric.
        rows: of :func:`rag_assets.report.leaderboard.result_rows`.
        shown: display names.
    """
    cutoff = compared.metric.cutoff
    there = {row["top_k"] for row in rows}
    chosen = [row for row in rows if row["top_k"] == (cutoff if cutoff in there else max(there))]  # type: ignore[type-var]
    measures = metric_columns(chosen[0])
    labels = _labels([str(row["retriever"]) for row in chosen], shown)
    values = {
        labels[str(row["retriever"])]: {name: row.get(name) for name in measures} for row in chosen
    }
    better: dict[str, dict[str, list[str]]] = {name: {} for name in values}
    pairs = all_pairs(list(compared.cells)) if cutoff in there else []
    for row in compared.rows(pairs) if pairs else []:
        a, b = (labels.get(str(row[f"retriever_{side}"])) for side in "ab")
        if a is not None and b is not None:
            _add(better, row, a, b, compared.metric.column)
    n_queries = max(int(str(row["n_queries"])) for row in chosen)
    split = "" if compared.split == ALL else f", {compared.split} split"
    name = compared.result.evaluation.experiment
    means = f"{name}{split}: means over {n_queries} queries at cut-off {chosen[0]['top_k']}."
    said = f"{means} Bold: the best of a column."
    if len(compared.cells) > 1:
        by = f" by {compared.metric.column}"
        said = _said(means, by, len(compared.family), compared.caveat)
    return score_table(values, measures, better, said)  # type: ignore[arg-type]


def pairs_table(compared: Compared, rows: Sequence[Row], shown: Names) -> str:
    """Return a row a pair: the difference, its interval, p, and p after Holm where it is known."""
    adjusted = any(row["p_adjusted"] is not None for row in rows)
    interval = interval_name(compared.resampling.confidence)
    names = ["pair", "difference", interval, "p", *(["Holm"] if adjusted else []), "won", "lost"]
    lines = []
    for row in rows:
        a, b = (shown.get(str(row[which]), str(row[which])) for which in _SIDES)
        mark = "*" if is_significant(row) else ""
        difference: Any = row["difference"]
        line = [f"{b} - {a}", f"{signed_text(difference)}{mark}", interval_text(row)]
        line += [p_text(row[key]) for key in ("p_randomisation", *_ADJUSTED[: int(adjusted)])]  # type: ignore[arg-type]
        lines.append([*line, str(row["won"]), str(row["lost"])])
    after = f" after Holm over {len(compared.family)} pairs" if adjusted else ""
    split = "" if compared.split == ALL else f", {compared.split} split"
    what = f"pairs of {noun(compared.metric)}s on {compared.metric}{split}"
    test = "two-sided paired randomisation test"
    name = compared.result.evaluation.experiment
    limits = _sentence(compared.caveat)
    caption = f"{name}: {what}; {test}, * p < {ALPHA}{after}.{limits}"
    return rows_table(names, set(names[1:]), lines, caption)


_SIDES = ("retriever_a", "retriever_b")
_ADJUSTED = ("p_adjusted",)


def _add(
    better: dict[str, dict[str, list[str]]], row: Mapping[str, Any], a: str, b: str, metric: str
) -> None:
    """Note who is better, where that is shown."""
    if row["difference"] is not None and is_significant(dict(row)):
        above, below = (b, a) if is_gain(metric, row["difference"]) else (a, b)
        better[above].setdefault(metric, []).append(below)


def _said(means: str, by: str, n_pairs: int, caveat: str | None) -> str:
    holm = f", Holm over {n_pairs} pairs" if n_pairs > 1 else ""
    letters = f"Raised letters: better{by} than the row of that letter"
    test = f"two-sided paired randomisation test{holm}, p < {ALPHA}"
    return f"{means} Bold: the best of a column. {letters} ({test}).{_sentence(caveat)}"


def _sentence(caveat: str | None) -> str:
    return f" {caveat[0].upper()}{caveat[1:]}." if caveat else ""


def _labels(names: Sequence[str], shown: Names) -> dict[str, str]:
    return {name: shown.get(name, name) for name in names}
