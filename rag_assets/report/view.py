"""What all faces of an evaluation read: one split of it, and who is best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.evaluation.query_facts import ALL
from rag_assets.report.result import EvaluationResult
from rag_assets.statistics.comparisons import is_significant
from rag_assets.statistics.stage import COMPARISONS_KEY

Context = dict[str, Any]
"""The variables of one template."""


@dataclass(frozen=True)
class View:
    """An evaluation, and what several faces ask of it.

    Attributes:
        result: the evaluation.
        asked: the split whose numbers are shown; None: the one to show.
    """

    result: EvaluationResult
    asked: str | None = None

    @cached_property
    def split(self) -> str:
        """The split whose numbers are shown; ``all`` without one."""
        return self.result.chosen_split(self.asked) if self.result.has_metrics else ALL

    @cached_property
    def rows(self) -> list[Context]:
        """The leaderboard of the split, best retriever first, without what is null."""
        board = self.result.leaderboard.to_pylist() if self.result.has_metrics else []
        return [
            {n: v for n, v in row.items() if v is not None}
            for row in board
            if row["split"] == self.split
        ]

    @property
    def measure(self) -> str:
        """The primary metric without its cut-off."""
        return self.result.primary.column

    @property
    def cutoff(self) -> int:
        """The cut-off of the primary metric."""
        return self.result.primary.cutoff or 0

    @cached_property
    def measures(self) -> list[str]:
        """All metrics, the primary one first."""
        names = metric_columns({name for row in self.rows for name in row})
        return sorted(names, key=lambda name: name != self.measure)

    @cached_property
    def cutoffs(self) -> list[int]:
        """All cut-offs, rising."""
        return sorted({row["top_k"] for row in self.rows})

    @cached_property
    def retrievers(self) -> list[str]:
        """All retrievers of the leaderboard, best first."""
        return list(dict.fromkeys(row["retriever"] for row in self.rows))

    @cached_property
    def at_cutoff(self) -> list[Context]:
        """The rows at the primary cut-off, best first."""
        return [row for row in self.rows if row["top_k"] == self.cutoff]

    @cached_property
    def ranked(self) -> list[Context]:
        """Those that have a value of the primary metric and a position."""
        return [row for row in self.at_cutoff if self.measure in row and "position" in row]

    @cached_property
    def near(self) -> set[str]:
        """The retrievers that no test tells apart from the best by the primary metric."""
        best = {row["retriever"] for row in self.rows if row.get("position") == 1}
        unranked = {row["retriever"] for row in self.rows if "position" not in row}
        near: set[str] = set()
        for row in self.comparisons:
            pair = {row["retriever_a"], row["retriever_b"]}
            if pair & best and row["difference"] is not None and not is_significant(row):
                near |= pair - best - unranked
        return near

    @cached_property
    def intervals(self) -> dict[tuple[str, int, str], Context]:
        """(retriever, top_k, metric) -> row of :data:`rag_assets.schemas.INTERVALS`."""
        return {
            (row["retriever"], row["top_k"], row["metric"]): row
            for row in self.result.rows_of("intervals")
            if row["split"] == self.split
        }

    @cached_property
    def confidence(self) -> float | None:
        """That of the intervals; None where there are none."""
        return next((row["confidence"] for row in self.intervals.values()), None)

    @cached_property
    def comparisons(self) -> list[Context]:
        """Rows of :data:`rag_assets.schemas.COMPARISONS`: all pairs by the primary metric."""
        rows = self.result.rows_of(COMPARISONS_KEY.asset)
        return [row for row in rows if row["split"] == self.split]

    @cached_property
    def n_pairs(self) -> int:
        """Size of the family that p was adjusted for."""
        return sum(row["p_adjusted"] is not None for row in self.comparisons)

    @cached_property
    def speed(self) -> dict[str, float]:
        """Retriever -> milliseconds of a query with all that it needs; only where measured."""
        return self.result.milliseconds_per_query()

    @cached_property
    def cost_times(self) -> dict[tuple[str, int], float]:
        """(retriever, top_k) -> mean milliseconds of a query; only where measured."""
        return self.result.cost_times()
