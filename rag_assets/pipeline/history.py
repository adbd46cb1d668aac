"""The history of an experiment: a row for each evaluation, and how a metric went over time.

A row is made of an evaluation's snapshot and the artifacts that it names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.answers.options import AnswerCell
from rag_assets.answers.summary_stage import GROUPS
from rag_assets.engine.measurements import MEASUREMENTS, Measurements
from rag_assets.errors import StoreError
from rag_assets.judges.verdicts_stage import judge_fingerprint
from rag_assets.pipeline.evaluations import (
    Evaluation,
    manifest_of,
    read_evaluation,
    snapshot_file,
    snapshot_ids,
    table_of,
)
from rag_assets.pipeline.history_files import HistoryFiles, as_rows
from rag_assets.schemas import (
    HISTORY,
    HISTORY_ANSWERS,
    HISTORY_JUDGED,
    HISTORY_METRICS,
    HISTORY_RETRIEVERS,
    LEADERBOARD,
    SCHEMA_VERSION,
)
from rag_assets.store.artifacts import Manifest
from rag_assets.store.canonical import canonical_json, fingerprint

_logger = logging.getLogger("rag_assets")

Row = dict[str, Any]

LISTS = {
    "retrievers": HISTORY_RETRIEVERS,
    "metrics": HISTORY_METRICS,
    "answers": HISTORY_ANSWERS,
    "judged": HISTORY_JUDGED,
}
"""Columns of an evaluation that hold a list, each with the relation that its items are."""

COST_TIME = "cost_time"
"""Stands among the metrics of a cell: mean milliseconds of a query, where it was measured."""

_LEAD = ("experiment", "evaluation_id", "started", "complete")


def evaluations_sql(rows: str) -> str:
    """Return the statement for one row an evaluation, without the lists.

    Args:
        rows: a relation with the columns of the history, in which a row may stand twice.
    """
    return _once(rows, [name for name in HISTORY.arrow().names if name not in LISTS])


def items_sql(rows: str, column: str) -> str:
    """Return the statement for one row an item of a list of an evaluation.

    Args:
        rows: as for :func:`evaluations_sql`.
        column: one of :data:`LISTS`.
    """
    lead, names = ", ".join(_LEAD), LISTS[column].arrow().names
    items = ", ".join(f"item.{name} AS {name}" for name in names)
    lists = f"SELECT {lead}, unnest({column}) AS item FROM ({_once(rows, [*_LEAD, column])})"
    return f"SELECT {lead}, {items} FROM ({lists})"


def _once(rows: str, names: Sequence[str]) -> str:
    return (
        f"SELECT {', '.join(names)} FROM {rows} "
        "QUALIFY row_number() OVER (PARTITION BY experiment, evaluation_id) = 1"
    )


_DIGESTS = {
    "corpus_digest": "documents",
    "chunks_digest": "chunks",
    "queries_digest": "queries",
    "query_sets_digest": "query_sets",
    "qrels_digest": "qrels",
}
"""Column -> the asset whose content it is the digest of."""


def history_table(root: Path, evaluations: Iterable[Evaluation]) -> pa.Table:
    """Return a row of :data:`rag_assets.schemas.HISTORY` for each evaluation.

    Args:
        root: the experiment's folder in the store.
        evaluations: their snapshots. An artifact that is gone leaves out what only it knew.

    Raises:
        StoreError: an artifact is damaged.
    """
    rows = [_row(root, evaluation) for evaluation in evaluations]
    return HISTORY.check(pa.Table.from_pylist(rows, schema=HISTORY.arrow()))


def _row(root: Path, evaluation: Evaluation) -> Row:
    origin = evaluation.origin
    return {
        "experiment": evaluation.experiment,
        "evaluation_id": evaluation.evaluation_id,
        "started": datetime.fromisoformat(evaluation.started),
        "finished": datetime.fromisoformat(evaluation.finished),
        "trigger": evaluation.trigger,
        "user": origin.user,
        "dagster_runs": list(evaluation.dagster_runs),
        "complete": evaluation.complete,
        "computed": evaluation.computed,
        "n_artifacts": len(evaluation.entries),
        "primary_metric": evaluation.primary,
        "baseline": evaluation.baseline,
        "content_digest": evaluation.content,
        "experiment_digest": origin.experiment_digest,
        **{column: _digest(evaluation, asset) for column, asset in _DIGESTS.items()},
        "git_commit": origin.git_commit,
        "git_dirty": origin.git_dirty,
        "configuration": canonical_json(
            {**origin.configuration, **({"files": dict(origin.files)} if origin.files else {})}
        ),
        "code_versions": canonical_json(origin.code_versions),
        "packages": canonical_json(origin.packages),
        "retrievers": list(_retrievers(root, evaluation)),
        "metrics": [*_metrics(root, evaluation), *_cost_times(root, evaluation)],
        "answers": list(_answers(root, evaluation)),
        "judged": [*_judged(root, evaluation), *_sampled(root, evaluation)],
        "schema_version": SCHEMA_VERSION,
    }


def _digest(evaluation: Evaluation, asset: str) -> str | None:
    """Return the digest of an asset; of all its partitions, where there are several."""
    entries = evaluation.entries_of(asset)
    if len(entries) == 1:
        return entries[0].digest
    return fingerprint({str(e.key): e.digest for e in entries}) if entries else None


def _retrievers(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    """Yield retrievers by a manifest of each of their assets: cells differ in top_k alone."""
    manifests: dict[str, dict[str, Manifest | None]] = {}
    for entry in evaluation.entries:
        name = entry.partition.get("retriever")
        if name is not None and entry.asset not in manifests.setdefault(name, {}):
            manifests[name][entry.asset] = manifest_of(root, evaluation, entry)
    configurations = evaluation.origin.configuration.get("retrievers", {})
    for name, by_asset in manifests.items():
        options, revisions = configurations.get(name, {}), []
        versions: dict[str, str] = {}
        for manifest in filter(None, by_asset.values()):
            versions |= manifest.versions
            revisions.append(manifest.config.get("weights_sha256"))
        yield {
            "retriever": name,
            "type": options.get("type"),
            "configuration": canonical_json(options),
            "model": options.get("model"),
            "model_revision": next((str(one) for one in revisions if one is not None), None),
            "versions": canonical_json(versions),
        }


def _rows_of(root: Path, evaluation: Evaluation, asset: str) -> Iterator[Row]:
    """Yield the rows of an asset's tables that are still there."""
    for entry in evaluation.entries_of(asset):
        if (root.parent / entry.path).exists():
            yield from table_of(root, evaluation, entry).to_pylist()


def _metrics(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    declared = set(LEADERBOARD.arrow().names)
    for row in _rows_of(root, evaluation, "leaderboard"):
        cell = {name: row.get(name, "all") for name in ("retriever", "split", "top_k")}
        for name, value in row.items():
            if name not in declared and value is not None:
                yield {**cell, "metric": name, "value": value, "n_queries": row["n_queries"]}


def _cost_times(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    """Yield the time of each cell that was measured; it is of queries of any split."""
    measurements = Measurements(root.parent / MEASUREMENTS)
    for entry in evaluation.entries:
        is_cell = entry.asset.endswith("_runs")
        measured = measurements.cost_time(entry.fingerprint) if is_cell else None
        if measured is not None:
            yield {
                "retriever": entry.partition["retriever"],
                "split": "all",
                "top_k": int(entry.partition["top_k"]),
                "metric": COST_TIME,
                "value": measured[0],
                "n_queries": measured[1],
            }


def _answers(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    for row in _rows_of(root, evaluation, "answer_summary"):
        if row["questions"] == GROUPS[0] and row["mean"] is not None:
            yield {
                "answerer": AnswerCell(row["answerer"], row["top_k"]).key,
                "split": row["split"],
                "metric": row["metric"],
                "value": row["mean"],
                "n_questions": row["n"],
                "n_failed": row["n_failed"],
            }


_CALIBRATED = {"calibrated_means": "answer_verdicts", "calibrated_rankings": "relevance_verdicts"}
"""Asset of calibrated means -> the verdicts that it calibrates."""


def _judged(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    for entry in [one for asset in _CALIBRATED for one in evaluation.entries_of(asset)]:
        judge = entry.partition["judge"]
        print_of_judge = recorded_judge(root, evaluation, judge, _CALIBRATED[entry.asset])
        if print_of_judge is None or not (root.parent / entry.path).exists():
            continue
        lead = {"judge": judge, "fingerprint": print_of_judge}
        for row in table_of(root, evaluation, entry).to_pylist():
            own = {name: row.get(name) for name in HISTORY_JUDGED.arrow().names}
            # By labels of other answers it would be another number over time.
            value = row["calibrated"] if row["human"] is not None else None
            yield {**own, **lead, "value": value}


def _sampled(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    """Yield what a sample of labels estimates; no judge has a part in it."""
    for row in _rows_of(root, evaluation, "sampled_estimates"):
        yield {
            **{"judge": "", "fingerprint": "", "name": row["retriever"], "split": "all"},
            **{name: row[name] for name in ("metric", "value", "n", "n_labels")},
            **{"low": row["questions_low"], "high": row["questions_high"]},
        }


def fill_in(root: Path, locks: Path) -> int:
    """Add the evaluations that have a snapshot and no row, and return how many.

    A snapshot is without a row when a process was killed between the two, and when files of the
    history were deleted. The damaged file of one evaluation goes first, if its row can be made
    again.
    """
    files = HistoryFiles(root, locks)
    snapshots = snapshot_ids(root)
    for path in files.drop_damaged(snapshots):
        _logger.warning("%s was damaged; its row is made again from its snapshot", path)
    present = files.ids() if snapshots else set()
    tables = []
    for name in snapshots:
        if name not in present:
            try:
                evaluation = read_evaluation(snapshot_file(root, name))
                tables.append(history_table(root, [evaluation]))
            except StoreError as error:
                _logger.warning("left out of the history: %s", error)
    if tables:
        files.add(pa.concat_tables(tables))
    return len(tables)


class History:
    """The evaluations of one experiment."""

    def __init__(self, root: Path, locks: Path | None) -> None:
        """Open the history of the experiment's folder ``root`` in the store.

        Rows that are missing are made again, unless there is no folder of lock files: then it is
        only read.
        """
        self.root = root
        self._files = HistoryFiles(root, locks)
        if locks is not None:
            fill_in(root, locks)

    def evaluations(self, last: int | None = None) -> list[Row]:
        """Return the evaluations, the oldest first: rows of HISTORY without its lists.

        Args:
            last: so many of the newest; None: all.
        """
        names = [name for name in HISTORY.arrow().names if name not in LISTS]
        rows = self._files.table(names)
        return as_rows(rows if last is None else rows.slice(max(0, rows.num_rows - last)))

    def ids(self, *, complete: bool = False) -> list[str]:
        """Return the ids of all evaluations, or of the complete ones, the oldest first."""
        table = self._files.table(["evaluation_id", "complete"])
        rows = table.to_pylist()
        return [row["evaluation_id"] for row in rows if row["complete"] or not complete]

    def metric(
        self, metric: str, top_k: int, retrievers: Sequence[str] = (), since: str = ""
    ) -> list[Row]:
        """Return one row an evaluation, retriever and split that has the metric, the oldest first.

        Args:
            metric: its column in the query metrics.
            top_k: the cut-off.
            retrievers: only these; all when empty.
            since: id of the oldest evaluation that is wanted.
        """
        which = "metric = ? AND top_k = ?"
        values: list[object] = [metric, top_k]
        if retrievers:
            which += f" AND retriever IN ({', '.join('?' * len(retrievers))})"
            values += retrievers
        return self._ask("metrics", which, values, "retriever, split", since)

    def answer_metric(self, metric: str, since: str = "") -> list[Row]:
        """Return one row an evaluation, answerer and split that has the metric, the oldest first.

        Args:
            metric: its column in the metrics of answers.
            since: id of the oldest evaluation that is wanted.
        """
        return self._ask("answers", "metric = ?", [metric], "answerer, split", since)

    def judged_metric(self, judge: str | None, metric: str, since: str = "") -> list[Row]:
        """Return one row an evaluation, judge, name and split that has a calibrated mean.

        Args:
            judge: only this one; all when None.
            metric: such as ``judged_correct``.
            since: id of the oldest evaluation that is wanted.
        """
        which = "metric = ? AND value IS NOT NULL AND coalesce(judge = ?, true)"
        return self._ask("judged", which, [metric, judge], "judge, name, split", since)

    def metrics(self, evaluations: Sequence[str]) -> list[Row]:
        """Return one row an evaluation, retriever, split, cut-off and metric, of some ids."""
        if not evaluations:
            return []
        which = f"evaluation_id IN ({', '.join('?' * len(evaluations))})"
        return self._ask("metrics", which, evaluations, "retriever", min(evaluations))

    def newest_first(self, columns: Sequence[str]) -> list[Row]:
        """Return columns of evaluations, the newest first; ``evaluation_id`` must be among them."""
        return as_rows(self._files.table(columns))[::-1]

    def _ask(
        self, column: str, which: str, values: Sequence[object], order: str, since: str
    ) -> list[Row]:
        """Return rows of one of the lists, the oldest evaluation first."""
        import duckdb

        rows = self._files.table([*_LEAD, column])
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("evaluations", rows)
            items = connection.sql(
                f"FROM ({items_sql('evaluations', column)}) WHERE {which} AND evaluation_id >= ? "
                f"ORDER BY evaluation_id, {order}",
                params=[*values, since],
            )
            return as_rows(items.to_arrow_table())


FINGERPRINT_DIGITS = 12
"""So many are kept: enough to tell judges apart."""


def recorded_judge(
    root: Path, evaluation: Evaluation, judge: str, asset: str = "answer_verdicts"
) -> str | None:
    """Return the fingerprint of a judge; None: the evaluation has no verdicts of it.

    What it judged is no part of it, nor is the parser of its replies.

    Args:
        root: the experiment's folder in the store.
        evaluation: whose judge.
        judge: its name.
        asset: its verdicts: on answers, or on passages.
    """
    for entry in evaluation.entries_of(asset):
        if entry.partition["judge"] == judge:
            manifest = manifest_of(root, evaluation, entry)
            if manifest is not None:
                return judge_fingerprint(manifest)[:FINGERPRINT_DIGITS]
    return None
