"""Calibrated means of judges as a table, for Python and for a notebook."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.errors import NotEvaluated
from rag_assets.report.judge_check import kept_checks, outcome
from rag_assets.report.judged import Row, how, judged_rows, shown, worth_text
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
        rows = self._rows()
        cells = [
            [
                words(row["by"]),
                words(_name(row)),
                number(row["judge"]),
                number(row["calibrated"], _bounds(row["low"], row["high"])),
                Cell(str(row["n_labels"])),
                number(row["human"], _bounds(row["human_low"], row["human_high"])),
            ]
            for row in rows
        ]
        notes = [f"{row['name']}: {row['reason']}" for row in rows if row["reason"] is not None]
        notes = [*dict.fromkeys(notes)]
        notes += [outcome(check) for check in kept_checks(self.result)]
        headings = ["judge's name", "of", "judge", "calibrated", "labels", "labels alone"]
        title = f"{self.result.evaluation.experiment}: verdicts, calibrated"
        said = [text] if (text := worth_text(rows)) else []
        return [Shown(title, headings, cells, said, notes)]


def _name(row: Row) -> str:
    return f"{row['name']}: {row['metric']}"


def _bounds(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
