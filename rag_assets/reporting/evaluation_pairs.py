"""A retriever in two evaluations, or two retrievers in one, compared query by query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.pipeline.stages.counting import counting_of
from rag_assets.reporting.comparisons import PREFERRED_SPLIT
from rag_assets.reporting.result import EvaluationResult
from rag_assets.statistics.pairs import comparisons
from rag_assets.statistics.resampling import Resampling
from rag_assets.store.artifacts import read_manifest

Row = dict[str, Any]

OLD, NEW = "old", "new"


@dataclass(frozen=True)
class EvaluationPair:
    """Two evaluations, seen through one metric and one split of the newer one.

    Attributes:
        old: the evaluation that is compared with.
        new: its queries, weights, clusters and splits count for both.
        metric: with its cut-off.
        split: ``all``, ``dev`` or ``test``.
        queries: ids of those that are compared.
    """

    old: EvaluationResult
    new: EvaluationResult
    metric: Metric
    split: str
    queries: Collection[str]

    @classmethod
    def of(
        cls,
        old: EvaluationResult,
        new: EvaluationResult,
        queries: Collection[str],
        metric: str | None = None,
        split: str | None = None,
    ) -> EvaluationPair:
        """Choose metric and split; the primary one, and test where there is one, by default.

        Raises:
            NotEvaluated: no cell of the newer evaluation has the metric.
            UsageError: there is no such metric or split.
        """
        chosen = metric_of(new, metric)
        cells = new.query_metrics(chosen.cutoff or 0)
        if not any(chosen.column in table.column_names for table in cells.values()):
            name = new.evaluation.evaluation_id
            raise NotEvaluated(f"evaluation {name} has no cell of {chosen}")
        splits = sorted(set(counting_of(new.table)["split"].to_pylist()))
        own = split or (PREFERRED_SPLIT if PREFERRED_SPLIT in splits else splits[0])
        if own not in splits:
            raise UsageError(f"unknown split {allowed_names(own, splits)}")
        return cls(old, new, chosen, own, queries)

    @cached_property
    def resampling(self) -> Resampling:
        """How the newer evaluation's own intervals were computed."""
        for entry in self.new.evaluation.entries_of("intervals"):
            manifest = read_manifest(self.new.root / entry.path)
            if manifest is not None:
                config = manifest.config
                return Resampling(config["confidence"], config["resamples"], config["seed"])
        return Resampling()

    @cached_property
    def counting(self) -> pa.Table:
        """What of each compared query of the split counts, in the newer evaluation."""
        counting = counting_of(self.new.table)
        chosen = pc.is_in(counting["query_id"], pa.array(sorted(self.queries), pa.string()))
        return counting.filter(pc.and_(chosen, pc.equal(counting["split"], self.split)))

    @cached_property
    def old_cells(self) -> Mapping[str, pa.Table]:
        """Retriever -> query metrics of the older evaluation at the cut-off."""
        return self._with_metric(self.old)

    @cached_property
    def new_cells(self) -> Mapping[str, pa.Table]:
        """Retriever -> query metrics of the newer evaluation at the cut-off."""
        return self._with_metric(self.new)

    def _with_metric(self, result: EvaluationResult) -> Mapping[str, pa.Table]:
        cells = result.query_metrics(self.metric.cutoff or 0)
        column = self.metric.column
        return {name: table for name, table in cells.items() if column in table.column_names}

    def row(self, old: str, new: str) -> Row | None:
        """Compare retriever ``new`` of the newer evaluation with ``old`` of the older one.

        Returns:
            ``retriever``, ``old``, ``new`` (means), and the columns of
            :data:`rag_assets.schemas.COMPARISONS` that compare them; None when no query has a
            value in both, or one of them has no such cell.
        """
        if old not in self.old_cells or new not in self.new_cells:
            return None
        cells = {OLD: self.old_cells[old], NEW: self.new_cells[new]}
        metric = (self.metric.column, self.metric.cutoff or 0)
        table = comparisons(cells, self.counting, metric, self.resampling, [(OLD, NEW)])
        found: list[Row] = table.to_pylist()
        if not found or not found[0]["n"]:
            return None
        row = found[0]
        kept = ("n", "n_clusters", "difference", "low", "high", "p_randomisation")
        return {
            "retriever": new,
            "split": self.split,
            "metric": str(self.metric),
            "old": row["mean_a"],
            "new": row["mean_b"],
            **{name: row[name] for name in kept},
            **{name: row[name] for name in ("won", "tied", "lost")},
        }

    def rows(self, retrievers: Collection[str] = ()) -> list[Row]:
        """Return a row for each retriever that both evaluations have, of those wanted."""
        names = [name for name in self.new_cells if name in self.old_cells]
        found = [self.row(name, name) for name in names if not retrievers or name in retrievers]
        return [row for row in found if row is not None]


def metric_of(result: EvaluationResult, name: str | None) -> Metric:
    """Return the metric of a name, at the primary cut-off where it has none of its own."""
    if name is None:
        return result.primary
    metric = parse_metric(name)
    return metric if metric.cutoff is not None else metric._replace(cutoff=result.primary.cutoff)
