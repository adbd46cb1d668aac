"""The current evaluation, opened for reading: what faces and notebooks show."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.pipeline.evaluations import Evaluation, SnapshotEntry, read_current
from rag_assets.pipeline.measurements import Measurements
from rag_assets.reporting.slices import TagSlice, by_tag
from rag_assets.store.artifacts import read_manifest


class EvaluationResult:
    """An evaluation and its tables."""

    def __init__(self, root: Path, evaluation: Evaluation) -> None:
        """Open ``evaluation``, whose artifacts lie below ``root``."""
        self.root = root
        self.evaluation = evaluation

    @classmethod
    def current(cls, root: Path) -> EvaluationResult:
        """Open the current evaluation of the experiment in folder ``root`` of the store.

        Raises:
            NotEvaluated: there is none.
        """
        return cls(root, read_current(root))

    @property
    def primary(self) -> Metric:
        """The metric that ranks the leaderboard."""
        return parse_metric(self.evaluation.primary)

    @cached_property
    def leaderboard(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.LEADERBOARD`."""
        return self._table(self._entry("leaderboard"))

    @cached_property
    def queries(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.QUERIES`."""
        return self._table(self._entry("queries"))

    def query_metrics(self, top_k: int) -> dict[str, pa.Table]:
        """Return retriever -> table of :data:`rag_assets.schemas.QUERY_METRICS` at ``top_k``."""
        return {
            entry.partition["retriever"]: self._table(entry)
            for entry in self.evaluation.entries_of("metrics")
            if entry.partition["top_k"] == str(top_k)
        }

    def slices(self, retrievers: Collection[str] | None = None) -> list[TagSlice]:
        """Return the primary metric by query tag; empty when no query has a tag.

        Args:
            retrievers: whose means to give; all of the evaluation when absent.
        """
        cells = self.query_metrics(self.primary.cutoff or 0)
        if retrievers is not None:
            cells = {name: table for name, table in cells.items() if name in retrievers}
        return by_tag(cells, self.queries, self.primary.measure) if cells else []

    def milliseconds_per_query(self) -> dict[str, float]:
        """Return retriever -> mean search time of a query, measured when its ranking was made."""
        measurements = Measurements(self.root / "measurements")
        found = {}
        for entry in self.evaluation.entries:
            if entry.asset.endswith("_runs"):
                manifest = read_manifest(self.root / entry.path)
                ranking = str(manifest.facts.get("ranking")) if manifest else ""
                measured = measurements.find("search", ranking)
                if measured is not None:
                    each = 1000 * measured["seconds"] / max(measured["amount"], 1)
                    found[entry.partition["retriever"]] = each
        return found

    def _entry(self, asset: str) -> SnapshotEntry:
        return self.evaluation.entries_of(asset)[0]

    def _table(self, entry: SnapshotEntry) -> pa.Table:
        table = pq.read_table(self.root / entry.path, partitioning=None)
        return table.replace_schema_metadata(None)
