"""Calibrated means of judges as a table, for Python and for a notebook."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.errors import NotEvaluated
from rag_assets.report.judge_check import kept_checks, outcome
from rag_assets.report.judged import (
    Row,
    headline_sheets,
    how,
    judged_rows,
    judged_sheets,
    shown,
)
from rag_assets.report.notebook import Shown, Tabular, figure, look, of_sheet, plain, whiskers
from rag_assets.report.result import EvaluationResult

if TYPE_CHECKING:
    import plotly.graph_objects as go


class JudgedTable(Tabular):
    """A row a judge, an answerer and a split: judge, calibrated, interval, labels."""

    def __init__(self, result: EvaluationResult) -> None:
        """Read the calibrated means of an evaluation.

        Raises:
            NotEvaluated: there are none.
        """
        self.result = result
        self.rows = judged_rows(result)
        if not self.rows:
            name = result.evaluation.experiment
            raise NotEvaluated(
                f"the last evaluation of {name} has no calibrated verdicts; {how(result)}"
            )

    def to_arrow(self) -> pa.Table:
        """Return the rows of :func:`rag_assets.report.judged.judged_rows`, of all splits."""
        return pa.Table.from_pylist(self.rows)

    @property
    def differences(self) -> pa.Table:
        """All pairs: :data:`rag_assets.schemas.CALIBRATED_DIFFERENCES` with ``by``, the judge."""
        entries = self.result.evaluation.entries_of("calibrated_differences")
        rows = [
            {"by": entry.partition["judge"], **shown(row)}
            for entry in entries
            for row in self.result.table(entry.key).to_pylist()
        ]
        return pa.Table.from_pylist(rows)

    def plot(self, *, dark: bool = False) -> go.Figure:
        """Return bars of the calibrated means by answerer, a colour a judge, with intervals.

        Args:
            dark: for a dark page.
        """
        traces = []
        for place, (judge, group) in enumerate(groupby(self._rows(), key=lambda row: row["by"])):
            rows = list(group)
            values, low, high = ([r[name] for r in rows] for name in ("calibrated", "low", "high"))
            traces.append(
                {
                    "type": "bar",
                    "name": plain(judge),
                    "x": [plain(_name(row)) for row in rows],
                    "y": values,
                    "error_y": whiskers(values, low, high, dark),
                    "marker": {"color": look(place, dark)["colour"]},
                    "hovertemplate": "%{x}: %{y:.4f}<extra></extra>",
                }
            )
        return figure(
            traces,
            dark,
            title=f"{plain(self.result.evaluation.experiment)}: calibrated verdicts",
            xaxis={"type": "category"},
            yaxis={"rangemode": "tozero"},
        )

    def _rows(self) -> list[Row]:
        split = self.result.chosen_split()
        return [row for row in self.rows if row["split"] == split]

    def _shown(self) -> list[Shown]:
        split = self.result.chosen_split()
        first, *others = headline_sheets(self.result, split) or judged_sheets(self.result, split)
        checks = [outcome(check) for check in kept_checks(self.result)]
        return [of_sheet(one) for one in (replace(first, lead=checks), *others)]


def _name(row: Row) -> str:
    return f"{row['name']}: {row['metric']}"
