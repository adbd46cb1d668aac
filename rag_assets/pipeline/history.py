"""The history of an experiment: a row for each evaluation, and what is asked of them.

A row is made of an evaluation's snapshot and the artifacts that it names. Its files are those of
:mod:`rag_assets.pipeline.history_files`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.json import ParseOptions, ReadOptions, read_json

from rag_assets.answers.answerers import AnswerCell
from rag_assets.answers.summary_stage import GROUPS
from rag_assets.errors import StoreError
from rag_assets.judges.verdicts_stage import judge_fingerprint
from rag_assets.pipeline.evaluations import Evaluation, read_evaluation, snapshot_file, snapshot_ids
from rag_assets.pipeline.history_files import COLUMNS, HistoryFiles, Row, as_rows, is_readable
from rag_assets.pipeline.stored_evaluation import StoredEvaluation
from rag_assets.pipeline.written_answers import WRITTEN, written
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
from rag_assets.store.atomic import remove
from rag_assets.store.canonical import canonical_json, fingerprint

_logger = logging.getLogger("rag_assets")

LISTS = {
    "retrievers": HISTORY_RETRIEVERS,
    "metrics": HISTORY_METRICS,
    "answers": HISTORY_ANSWERS,
    "judged": HISTORY_JUDGED,
}
"""Columns of an evaluation that hold a list, each with the relation that its items are."""

TIME, MONEY = COSTS = "cost_time", "query_cost"
"""Stand among the metrics of a cell: milliseconds of a query, and money if servers take any."""

_LEAD = ("experiment", "evaluation_id", "started", "complete")

_DIGESTS = {
    "corpus_digest": "documents",
    "chunks_digest": "chunks",
    "queries_digest": "queries",
    "query_sets_digest": "query_sets",
    "qrels_digest": "qrels",
}
"""Column -> the asset whose content it is the digest of."""

_WRITING = ("answers", "answer_metrics", "query_facts")
"""Assets that say what writing answers took."""

_CALIBRATED = {
    "calibrated_means": "answer_verdicts",
    "calibrated_rankings": "relevance_verdicts",
    "calibrated_claims": "claim_verdicts",
}
"""Asset of calibrated means -> the verdicts that it calibrates."""

FINGERPRINT_DIGITS = 12
"""So many of a judge's are kept: enough to tell judges apart."""


def evaluations_sql(rows: str) -> str:
    """Return the statement for one row an evaluation of a relation, without the lists."""
    return _once(rows, [name for name in COLUMNS if name not in LISTS])


def items_sql(rows: str, column: str) -> str:
    """Return the statement for one row an item of one of :data:`LISTS` of an evaluation."""
    lead, names = ", ".join(_LEAD), LISTS[column].arrow().names
    items = ", ".join(f"item.{name} AS {name}" for name in names)
    lists = f"SELECT {lead}, unnest({column}) AS item FROM ({_once(rows, [*_LEAD, column])})"
    return f"SELECT {lead}, {items} FROM ({lists})"


def _once(rows: str, names: Sequence[str]) -> str:
    return (
        f"SELECT {', '.join(names)} FROM {rows} "
        "QUALIFY row_number() OVER (PARTITION BY experiment, evaluation_id) = 1"
    )


def history_table(root: Path, evaluations: Iterable[Evaluation]) -> pa.Table:
    """Return a row of :data:`rag_assets.schemas.HISTORY` for each evaluation.

    Args:
        root: the experiment's folder in the store.
        evaluations: their snapshots. An artifact that is gone leaves out what only it knew.

    Raises:
        StoreError: an artifact is damaged.
    """
    rows = [canonical_json(_row(StoredEvaluation(root, evaluation))) for evaluation in evaluations]
    if not rows:
        return HISTORY.empty()
    # As JSON: for Python lists pyarrow imports pandas, a tenth of an evaluation without changes.
    content = "\n".join(rows).encode()
    schema = HISTORY.arrow()
    rules = ParseOptions(schema, unexpected_field_behavior="error")
    table = read_json(pa.py_buffer(content), ReadOptions(block_size=len(content)), rules)
    return HISTORY.check(table.cast(schema))


def _row(stored: StoredEvaluation) -> dict[str, object]:
    evaluation = stored.evaluation
    origin = evaluation.origin
    files = {"files": dict(origin.files)} if origin.files else {}
    return {
        "experiment": evaluation.experiment,
        "evaluation_id": evaluation.evaluation_id,
        "started": evaluation.started,
        "finished": evaluation.finished,
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
        "configuration": canonical_json({**origin.configuration, **files}),
        "code_versions": canonical_json(origin.code_versions),
        "packages": canonical_json(origin.packages),
        "retrievers": list(_retrievers(stored)),
        "metrics": list(_metrics(stored)),
        "answers": list(_answers(stored)),
        "judged": [*_judged(stored), *_sampled(stored)],
        "schema_version": SCHEMA_VERSION,
    }


def _digest(evaluation: Evaluation, asset: str) -> str | None:
    """Return the digest of an asset; of all its partitions, where there are several."""
    entries = evaluation.entries_of(asset)
    if len(entries) == 1:
        return entries[0].digest
    return fingerprint({str(e.key): e.digest for e in entries}) if entries else None


def _retrievers(stored: StoredEvaluation) -> Iterator[Row]:
    """Yield retrievers by a manifest of each of their assets: cells differ in top_k alone."""
    manifests: dict[str, dict[str, Manifest | None]] = {}
    for entry in stored.evaluation.entries:
        name = entry.partition.get("retriever")
        if name is not None and entry.asset not in manifests.setdefault(name, {}):
            manifests[name][entry.asset] = stored.manifest_of(entry)
    configurations = stored.evaluation.origin.configuration.get("retrievers", {})
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
            "model_revision": next((str(value) for value in revisions if value is not None), None),
            "versions": canonical_json(versions),
        }


def _rows_of(stored: StoredEvaluation, asset: str) -> Iterator[Row]:
    """Yield the rows of an asset's tables that are still there."""
    for entry in stored.evaluation.entries_of(asset):
        if stored.exists(entry):
            yield from stored.content_of(entry).to_pylist()


def _metrics(stored: StoredEvaluation) -> Iterator[Row]:
    declared = set(LEADERBOARD.arrow().names)
    for row in _rows_of(stored, "leaderboard"):
        cell = {name: row[name] for name in ("retriever", "split", "top_k")}
        time = stored.cost_times.get((row["retriever"], row["top_k"]))
        alone = stored.latencies.get(row["retriever"])
        money = alone["cost"] / alone["amount"] if alone and alone["cost"] else None
        for name, value in {**row, TIME: time, MONEY: money}.items():
            if name not in declared and value is not None:
                yield {**cell, "metric": name, "value": value, "n_queries": row["n_queries"]}


def _answers(stored: StoredEvaluation) -> Iterator[Row]:
    cells: dict[tuple[str, str], Row] = {}
    for row in _rows_of(stored, "answer_summary"):
        if row["questions"] == GROUPS[0] and row["mean"] is not None:
            key, split = AnswerCell(row["answerer"], row["top_k"]).key, row["split"]
            cells[key, split] = {
                "answerer": key,
                **{name: row[name] for name in ("split", "n_failed")},
                "n_questions": row["n_questions"],
            }
            yield {
                **cells[key, split],
                "metric": row["metric"],
                "value": row["mean"],
                "n_questions": row["n"],
            }
    entries = [one for asset in _WRITING for one in stored.evaluation.entries_of(asset)]
    if all(stored.exists(entry) for entry in entries):
        for (key, split), cell in cells.items():
            means = written(stored, key, split)
            for name in WRITTEN:
                if means[name] is not None:
                    yield {**cell, "metric": name, "value": means[name]}


def _judged(stored: StoredEvaluation) -> Iterator[Row]:
    for entry in [cell for asset in _CALIBRATED for cell in stored.evaluation.entries_of(asset)]:
        judge = entry.partition["judge"]
        print_of_judge = recorded_judge(stored, judge, _CALIBRATED[entry.asset])
        if print_of_judge is None or not stored.exists(entry):
            continue
        lead = {"judge": judge, "fingerprint": print_of_judge}
        for row in stored.content_of(entry).to_pylist():
            same = {name: row.get(name) for name in HISTORY_JUDGED.arrow().names}
            # By labels of other answers it would be another number over time.
            value = row["calibrated"] if row["human"] is not None else None
            yield {**same, **lead, "value": value}


def _sampled(stored: StoredEvaluation) -> Iterator[Row]:
    """Yield what a sample of labels estimates; no judge has a part in it."""
    for row in _rows_of(stored, "sampled_estimates"):
        yield {
            **{"judge": "", "fingerprint": "", "name": row["retriever"], "split": "all"},
            **{name: row[name] for name in ("metric", "value", "n", "n_labels")},
            **{"low": row["questions_low"], "high": row["questions_high"]},
        }


def recorded_judge(
    stored: StoredEvaluation, judge: str, asset: str = "answer_verdicts"
) -> str | None:
    """Return the fingerprint of a judge; None: the evaluation has no verdicts of it.

    What it judged is no part of it, nor is the parser of its replies.

    Args:
        stored: whose judge.
        judge: its name.
        asset: its verdicts: on answers, or on passages.
    """
    for entry, manifest in stored.manifests_of(asset):
        if entry.partition["judge"] == judge:
            return judge_fingerprint(manifest)[:FINGERPRINT_DIGITS]
    return None


def fill_in(root: Path, locks: Path) -> int:
    """Add the evaluations that have a snapshot and no row, and return how many.

    A snapshot is without a row when a process was killed between the two, and when files of the
    history were deleted. The damaged file of one evaluation goes first, if its row can be made
    again.
    """
    files = HistoryFiles(root, locks)
    snapshots = snapshot_ids(root)
    for path in files.single():
        if path.name.partition(".")[0] in snapshots and not is_readable(path):
            remove(path)
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


STATE = (
    "content_digest",
    "complete",
    "corpus_digest",
    "queries_digest",
    "qrels_digest",
    "configuration",
    "code_versions",
    "packages",
)
"""Columns in which evaluations are equal that say the same."""


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
        """Return evaluations (the ``last`` ones), the oldest first: HISTORY without its lists."""
        names = [name for name in COLUMNS if name not in LISTS]
        ids = self.ids()[-(last or 0) :]
        rows = self._files.table(names, min(ids, default=""))
        return as_rows(rows.slice(max(0, rows.num_rows - len(ids))))

    def states(self, until: str) -> list[str]:
        """Return the ids of evaluations that say something else than the one before them.

        The oldest first, up to ``until``. Most evaluations of a night change nothing.
        """
        columns = self._files.table(("evaluation_id", *STATE)).columns
        ids, *values = (column.to_pylist() for column in columns)
        states: list[str] = []
        before: tuple[Any, ...] | None = None
        for name, *state in zip(ids, *values, strict=True):
            if name <= until and tuple(state) != before:
                states.append(name)
                before = tuple(state)
        return states

    def ids(self, *, complete: bool = False) -> list[str]:
        """Return the ids of all evaluations, or of the complete ones, the oldest first."""
        rows = self._files.table(["evaluation_id", "complete"]).to_pylist()
        return [row["evaluation_id"] for row in rows if row["complete"] or not complete]

    def metric(self, metric: str, top_k: int, since: str = "") -> list[Row]:
        """Return one row an evaluation, retriever and split that has the metric, the oldest first.

        Args:
            metric: its column in the query metrics.
            top_k: the cut-off.
            since: id of the oldest evaluation that is wanted.
        """
        which = "metric = ? AND top_k = ?"
        return self._ask("metrics", which, [metric, top_k], "retriever, split", since)

    def answer_metric(self, metric: str, since: str = "") -> list[Row]:
        """Return one row an evaluation, answerer and split that has the metric, likewise."""
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

    def _ask(
        self, column: str, which: str, values: Sequence[object], order: str, since: str
    ) -> list[Row]:
        """Return rows of one of the lists, the oldest evaluation first."""
        import duckdb

        rows = self._files.table([*_LEAD, column], since)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("evaluations", rows)
            items = connection.sql(
                f"FROM ({items_sql('evaluations', column)}) WHERE {which} AND evaluation_id >= ? "
                f"ORDER BY evaluation_id, {order}",
                params=[*values, since],
            )
            return as_rows(items.to_arrow_table())
