"""The current evaluation, opened for reading: what faces and notebooks show."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.pipeline.evaluations import Evaluation, SnapshotEntry, read_current
from rag_assets.pipeline.measurements import Measurements
from rag_assets.reporting.slices import TAG, Slice, members_by, slices
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

    @property
    def has_metrics(self) -> bool:
        """Whether there were labels; without, there are overlaps and no leaderboard."""
        return bool(self.evaluation.entries_of("leaderboard"))

    @cached_property
    def leaderboard(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.LEADERBOARD`.

        Raises:
            NotEvaluated: the experiment had no labels, so no metric exists.
        """
        if not self.has_metrics:
            name = self.evaluation.experiment
            problem = f"{name} had no labels when it was evaluated, so it has no leaderboard"
            raise NotEvaluated(f"{problem}; `rag-assets pool` helps to judge without labels")
        return self.table(self.entry("leaderboard"))

    @cached_property
    def overlaps(self) -> dict[int, pa.Table]:
        """top_k -> table of :data:`rag_assets.schemas.OVERLAPS`; empty with labels."""
        entries = self.evaluation.entries_of("overlaps")
        return {int(entry.partition["top_k"]): self.table(entry) for entry in entries}

    @cached_property
    def answerability(self) -> list[dict[str, object]]:
        """Rows of :data:`rag_assets.schemas.ANSWERABILITY`; none where all are answerable."""
        rows: list[dict[str, object]] = []
        for entry in self.evaluation.entries_of("answerability"):
            rows += self.table(entry).to_pylist()
        return rows

    @property
    def run_retrievers(self) -> list[str]:
        """The retrievers with a run, in the order of the graph."""
        runs = [entry for entry in self.evaluation.entries if entry.asset.endswith("_runs")]
        return list(dict.fromkeys(entry.partition["retriever"] for entry in runs))

    @cached_property
    def queries(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.QUERIES`."""
        return self.table(self.entry("queries"))

    def query_metrics(self, top_k: int) -> dict[str, pa.Table]:
        """Return retriever -> table of :data:`rag_assets.schemas.QUERY_METRICS` at ``top_k``."""
        return {
            entry.partition["retriever"]: self.table(entry)
            for entry in self.evaluation.entries_of("metrics")
            if entry.partition["top_k"] == str(top_k)
        }

    def slices(
        self,
        retrievers: Collection[str] | None = None,
        by: str = TAG,
        metric: Metric | None = None,
    ) -> list[Slice]:
        """Return a metric by query tag or by a field; empty when no answerable query is in any.

        Args:
            retrievers: whose means to give; all of the evaluation when absent.
            by: ``tag``, ``query.<field>`` or ``document.<field>`` (of the relevant documents).
            metric: with a cut-off; the primary metric when absent.

        Raises:
            UsageError: ``by`` is none of these, or no query or document has the field.
        """
        metric = metric or self.primary
        cells = {
            name: table
            for name, table in self.query_metrics(metric.cutoff or 0).items()
            if (retrievers is None or name in retrievers) and metric.measure in table.column_names
        }
        if not cells:
            return []
        members = members_by(by, lambda asset: self.table(self.entry(asset)))
        return slices(cells, members, metric.measure)

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

    def entry(self, asset: str) -> SnapshotEntry:
        """Return the first entry of an asset that the evaluation has."""
        return self.evaluation.entries_of(asset)[0]

    def table(self, entry: SnapshotEntry) -> pa.Table:
        """Return the table of an entry."""
        table = pq.read_table(self.root / entry.path, partitioning=None)
        return table.replace_schema_metadata(None)
