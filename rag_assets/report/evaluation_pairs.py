"""A retriever in two evaluations, or two retrievers in one, compared query by query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.evaluation.query_facts import with_shared_documents
from rag_assets.evaluation.query_facts_stage import counting_of
from rag_assets.report.comparisons import PREFERRED_SPLIT
from rag_assets.report.result import EvaluationResult
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.bootstrap import bootstrap_intervals
from rag_assets.statistics.effect_size import difference
from rag_assets.statistics.intervals import number_or_none
from rag_assets.statistics.randomisation import randomisation_p_values
from rag_assets.statistics.resampling import Floats, Resampling
from rag_assets.statistics.units import SAME, Counted, counted_by_split, units_of

Row = dict[str, Any]


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
            manifest = self.new.manifest_of(entry)
            if manifest is not None:
                config = manifest.config
                return Resampling(config["confidence"], config["resamples"], config["seed"])
        return Resampling()

    @cached_property
    def counting(self) -> pa.Table:
        """What of each compared query of the split counts, in the newer evaluation."""
        counting, _ = with_shared_documents(counting_of(self.new.table), self.new.table(QRELS_KEY))
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
        tables = self.old_cells[old], self.new_cells[new]
        for counted in counted_by_split(self.counting, tables):
            before, after = (counted.values(table, self.metric.column) for table in tables)
            both = ~(np.isnan(before) | np.isnan(after))
            if both.any():
                lead = {"retriever": new, "split": self.split, "metric": str(self.metric)}
                return {**lead, **self._compared(counted, before, after)}
        return None

    def _compared(self, counted: Counted, before: Floats, after: Floats) -> Row:
        """Return the means and how sure their difference is.

        The signed-rank test of other comparisons is left out: it takes seconds for 8 to 13 queries.
        """
        both = ~(np.isnan(before) | np.isnan(after))
        gained, weights = (after - before)[both], counted.weights[both]
        units = units_of((after - before)[:, None], counted.weights, counted.clusters)
        low, high = bootstrap_intervals(units, self.resampling)
        won, lost = int((gained > SAME).sum()), int((gained < -SAME).sum())
        return {
            "old": difference(before[both], weights),
            "new": difference(after[both], weights),
            "n": gained.size,
            "n_clusters": int(np.count_nonzero(units.weights)),
            "difference": difference(gained, weights),
            "low": number_or_none(low[0]),
            "high": number_or_none(high[0]),
            "p_randomisation": randomisation_p_values(units, self.resampling)[0],
            "won": won,
            "tied": gained.size - won - lost,
            "lost": lost,
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
