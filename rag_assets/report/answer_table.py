"""The answerers of an evaluation as a table, for Python and for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.answers.metrics import METRICS
from rag_assets.answers.options import AnswerCell
from rag_assets.answers.summary import GROUPS
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.report.answers import SHOWN, answer_rows
from rag_assets.report.formats import Row
from rag_assets.report.notebook import (
    Cell,
    Shown,
    Tabular,
    figure,
    look,
    number,
    plain,
    whiskers,
    words,
)
from rag_assets.report.result import EvaluationResult

if TYPE_CHECKING:
    import plotly.graph_objects as go


class AnswerTable(Tabular):
    """A row an answerer at a cut-off, a split and a group of questions: means with intervals."""

    def __init__(self, result: EvaluationResult) -> None:
        """Read the answerers of an evaluation.

        Raises:
            NotEvaluated: there are none.
        """
        self.result = result
        splits = dict.fromkeys(result.answer_summary["split"].to_pylist())
        self.rows: list[Row] = [
            {**row, "questions": group}
            for split in splits
            for group in GROUPS
            for row in answer_rows(result, split, group)
        ]
        if not self.rows:
            raise NotEvaluated(
                f"the last evaluation of {result.evaluation.experiment} has no answers"
            )

    def to_arrow(self) -> pa.Table:
        """Return the rows of :func:`rag_assets.report.answers.answer_rows`, of all questions."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return pa.table({name: [row.get(name) for row in self.rows] for name in names})

    def plot(self, metric: str | None = None, *, dark: bool = False) -> go.Figure:
        """Return bars of a metric by answerer, with intervals.

        Args:
            metric: such as ``answer_em``; what answerers are compared by when absent.
            dark: for a dark page.

        Raises:
            UsageError: the answerers have no such metric.
        """
        rows = self._rows()
        names = [name for name in METRICS if any(row.get(name) is not None for row in rows)]
        chosen = metric or str(self.result.chosen_metric(None, tuple(self.result.answer_metrics)))
        if chosen not in names:
            raise UsageError(f"unknown metric {allowed_names(chosen, names)}")
        values, low, high = (
            [row.get(name) for row in rows] for name in (chosen, f"{chosen}_low", f"{chosen}_high")
        )
        trace = {
            "type": "bar",
            "x": [plain(_name(row)) for row in rows],
            "y": values,
            "error_y": whiskers(values, low, high, dark),  # type: ignore[arg-type]
            "marker": {"color": look(0, dark)["colour"]},
            "hovertemplate": "%{x}: %{y:.4f}<extra></extra>",
        }
        return figure(
            [trace],
            dark,
            title=f"{plain(self.result.evaluation.experiment)}: {chosen}",
            xaxis={"type": "category"},
            yaxis={"title": {"text": chosen}, "rangemode": "tozero"},
        )

    def _rows(self) -> list[Row]:
        return answer_rows(self.result, self.result.chosen_split())

    def _shown(self) -> list[Shown]:
        rows = self._rows()
        names = [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
        cells = [
            [
                words(_name(row)),
                *(_mean(row, name) for name in names),
                Cell(str(row["n_failed"])),
            ]
            for row in rows
        ]
        title = (
            f"{self.result.evaluation.experiment}: answers to {rows[0]['n_questions']} questions"
        )
        headings = ["answerer", *(SHOWN[name] for name in names), "failed"]
        return [Shown(title, headings, cells)]


def _name(row: Row) -> str:
    top_k = row["top_k"]
    return AnswerCell(str(row["answerer"]), None if top_k is None else int(str(top_k))).key


def _mean(row: Row, name: str) -> Cell:
    value, low, high = (row.get(one) for one in (name, f"{name}_low", f"{name}_high"))
    small = "" if low is None else f"{low:.3f} to {high:.3f}"
    return number(None if value is None else float(str(value)), small)
