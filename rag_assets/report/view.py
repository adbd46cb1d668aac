"""What all faces of an evaluation read: one split of it, who is best, and display names.

Programs, files and options keep the names of ``experiment.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.evaluation.query_facts import ALL
from rag_assets.pipeline.evaluations import Evaluation, SnapshotEntry
from rag_assets.report.formats import Row
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


_RETRIEVER = "retriever"
_COLUMNS = (_RETRIEVER, "retriever_a", "retriever_b", "inputs")
"""Columns of tables that hold names of retrievers, or lists of them."""


def shown(result: EvaluationResult) -> EvaluationResult:
    """Return the evaluation with the names that people read."""
    names = result.evaluation.display_names
    return _Shown(result, names) if names else result


def shown_rows(rows: Sequence[Row], names: Mapping[str, str]) -> list[Row]:
    """Return rows with display names in place of the names of retrievers."""
    return [
        {
            column: names.get(str(value), value) if column in _COLUMNS else value
            for column, value in row.items()
        }
        for row in rows
    ]


class _Shown(EvaluationResult):
    """Its partitions and tables have other names, and its files are the same."""

    def __init__(self, result: EvaluationResult, names: Mapping[str, str]) -> None:
        super().__init__(result.root, _renamed(result.evaluation, names))
        self._names = names

    def shown_name(self, retriever: str) -> str:
        return self._names.get(retriever, retriever)

    def _table(self, entry: SnapshotEntry) -> pa.Table:
        table = super()._table(entry)
        for number, name in enumerate(table.column_names):
            if name in _COLUMNS:
                field = table.schema.field(number)
                values = [self._shown_value(one) for one in table.column(number).to_pylist()]
                table = table.set_column(number, field, pa.array(values, field.type))
        return table

    def _shown_value(self, value: object) -> object:
        if isinstance(value, list):
            return [self._shown_value(one) for one in value]
        return self._names.get(value, value) if isinstance(value, str) else value


def _renamed(evaluation: Evaluation, names: Mapping[str, str]) -> Evaluation:
    def entry(one: SnapshotEntry) -> SnapshotEntry:
        name = one.partition.get(_RETRIEVER, "")
        if name not in names:
            return one
        return replace(one, partition={**one.partition, _RETRIEVER: names[name]})

    configuration = dict(evaluation.origin.configuration)
    if isinstance(configuration.get("retrievers"), Mapping):
        retrievers = configuration["retrievers"]
        configuration["retrievers"] = {names.get(one, one): retrievers[one] for one in retrievers}
    return replace(
        evaluation,
        baseline=names.get(evaluation.baseline, evaluation.baseline),
        entries=tuple(map(entry, evaluation.entries)),
        rankings=tuple(map(entry, evaluation.rankings)),
        origin=replace(evaluation.origin, configuration=configuration),
    )
