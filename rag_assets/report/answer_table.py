"""The answerers of an evaluation as a table, for Python and for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.answers.metrics import METRICS
from rag_assets.answers.summary import GROUPS
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.report.answers import answer_rows, answerer_key, answers_sheet
from rag_assets.report.formats import Row
from rag_assets.report.notebook import Shown, Tabular, figure, look, of_sheet, plain, whiskers
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
            "x": [plain(answerer_key(row)) for row in rows],
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
        sheet = answers_sheet(self.result, self.result.chosen_split())
        return [of_sheet(sheet)] if sheet is not None else []
