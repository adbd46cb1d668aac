"""Pairs of retrievers, compared: a table with the verdicts, for Python and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.pipeline.shown import is_shown
from rag_assets.report.asked_metric import metric_at
from rag_assets.report.comparisons import Compared
from rag_assets.report.interval_text import interval_name
from rag_assets.report.notebook.html import Cell, table_html, words
from rag_assets.report.notebook.palette import colours, figure, plain, whiskers
from rag_assets.report.notebook.tabular import Tabular
from rag_assets.report.result import EvaluationResult
from rag_assets.report.verdict import p_text, verdict
from rag_assets.schemas import COMPARISONS
from rag_assets.statistics.detectable import ALPHA
from rag_assets.statistics.pairs import all_pairs

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
            retrievers: two names, or none for all pairs.
            metric: such as ``recall@10``; the primary metric when absent.
            split: whose queries; the one to show when absent.

        Raises:
            UsageError: not two retrievers, an unknown metric or split.
            NotEvaluated: no labels, no such retriever, or no such cell.
        """
        if len(retrievers) not in (0, 2) or (retrievers and retrievers[0] == retrievers[1]):
            raise UsageError("compare takes two different retrievers, or none for all pairs")
        name = result.evaluation.experiment
        result.check_labels()
        chosen = metric_at(metric, result.primary) if metric is not None else None
        compared = Compared.of(result, chosen, split)
        wanted = [(retrievers[0], retrievers[1])] if retrievers else None
        rows = compared.rows(wanted or all_pairs(list(compared.cells)))
        if not rows:
            raise NotEvaluated(f"the last evaluation of {name} has no pair to compare")
        return cls(compared, rows)

    @property
    def verdicts(self) -> list[str]:
        """A sentence a pair, which claims no more than was shown."""
        n_pairs, caveat = len(self.compared.family), self.compared.caveat
        return [verdict(row, n_pairs, caveat) for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """Return a table of :data:`rag_assets.schemas.COMPARISONS`."""
        return pa.Table.from_pylist(self.rows, schema=COMPARISONS.arrow())

    def plot(self, *, dark: bool = False) -> go.Figure:
        """Return a figure of the differences with their intervals.

        Args:
            dark: for a dark page.
        """
        return _figure(self, dark)

    def _repr_html_(self) -> str:
        return _html(self)


def _html(comparison: Comparison) -> str:
    """Return a row a pair, and of one pair the verdict in words."""
    compared = comparison.compared
    of = "" if compared.split == "all" else f", {compared.split} split"
    title = f"{compared.result.evaluation.experiment}: differences in {compared.metric}{of}"
    adjusted = any(row["p_adjusted"] is not None for row in comparison.rows)
    interval = interval_name(compared.resampling.confidence)
    headings = ["pair", "difference", interval, "p", *(["Holm"] if adjusted else [])]
    rows = [_cells(row, adjusted) for row in comparison.rows]
    said = comparison.verdicts if len(comparison.rows) == 1 else []
    after = " after Holm over all pairs" if adjusted else ""
    notes = [f"* p < {ALPHA}{after}: chance hardly explains it", *compared.notes]
    return table_html(title, [*headings, "won", "tied", "lost"], rows, said, notes)


def _cells(row: Row, adjusted: bool) -> list[Cell]:
    mark = "*" if is_shown(row) else ""
    texts = [
        f"{_signed(row['difference'])}{mark}",
        "" if row["low"] is None else f"{_signed(row['low'])} to {_signed(row['high'])}",
        p_text(row["p_randomisation"]),
        *([p_text(row["p_adjusted"])] if adjusted else []),
        *(str(row[name]) for name in ("won", "tied", "lost")),
    ]
    return [words(_pair(row)), *map(Cell, texts)]


def _pair(row: Row) -> str:
    return f"{row['retriever_b']} - {row['retriever_a']}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _figure(comparison: Comparison, dark: bool) -> go.Figure:
    """Return a point a pair with its interval; filled where the difference is real."""
    rows = [row for row in comparison.rows if row["difference"] is not None][::-1]
    values: list[float | None] = [row["difference"] for row in rows]
    found = colours(dark)
    shown = [is_shown(row) for row in rows]
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
            "color": [found["c0"] if one else found["page"] for one in shown],
            "line": {"width": 2, "color": found["c0"]},
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
