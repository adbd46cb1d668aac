"""Pairs of retrievers, compared: a table with the verdicts, for Python and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.reporting.asked_metric import metric_at
from rag_assets.reporting.comparisons import Compared
from rag_assets.reporting.notebook.tabular import Tabular
from rag_assets.reporting.result import EvaluationResult
from rag_assets.reporting.verdict import verdict
from rag_assets.schemas import COMPARISONS
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
        from rag_assets.reporting.notebook.comparisons import comparison_figure

        return comparison_figure(self, dark)

    def _repr_html_(self) -> str:
        from rag_assets.reporting.notebook.comparisons import comparison_html

        return comparison_html(self)
