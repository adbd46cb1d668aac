"""A history of any length: one real evaluation, and copies of its files as of earlier hours.

A copy is what an evaluation of that hour would have written: a snapshot, and a row of the history
with another id, other times, now and then another configuration, and other means. Rows are added by
the product, so that the files lie as it leaves them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_assets.pipeline.evaluations import (
    HISTORY_DIR,
    Evaluation,
    new_evaluation_id,
    read_current,
    snapshot_file,
    snapshot_text,
)
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.schemas import HISTORY
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import canonical_json
from rag_assets.store.settings import StoreSettings

TOGETHER = 100
"""So many rows are added at once; the last ones one by one."""

SAME = 7
"""So many evaluations, one after the other, have one configuration."""


def write_history(source: Path, store: Path, experiment: str, n_evaluations: int) -> None:
    """Copy a store with one evaluation, and put so many before it that there are ``n_evaluations``.

    Args:
        source: the store.
        store: where the copy lies.
        experiment: its only experiment.
        n_evaluations: how many there are then.
    """
    root = source / experiment
    current = read_current(root)
    [row] = HistoryFiles(root, None).table().to_pylist()
    shutil.copytree(source, store, ignore=shutil.ignore_patterns(HISTORY_DIR))
    settings = StoreSettings.resolve(store)
    files = HistoryFiles(store / experiment, settings.locks)
    rows: list[dict[str, Any]] = []
    for number in range(n_evaluations - 1):
        hours = n_evaluations - 1 - number
        rows.append(_earlier(row, row["started"] - timedelta(hours=hours), number))
        _write_snapshot(store / experiment, current, rows[-1])
        if len(rows) == TOGETHER or hours <= TOGETHER // 2:
            files.add(HISTORY.check(pa.Table.from_pylist(rows, schema=HISTORY.arrow())))
            rows = []
    files.add(pa.Table.from_pylist([row], schema=HISTORY.arrow()))


def _earlier(row: dict[str, Any], started: datetime, number: int) -> dict[str, Any]:
    """Return the row of another evaluation."""
    configuration = json.loads(row["configuration"])
    configuration["retrievers"]["r0"]["k1"] = round(0.5 + number // SAME % 20 / 20, 2)
    drop = np.random.default_rng(number // SAME).uniform(0, 0.01)
    return {
        **row,
        "evaluation_id": new_evaluation_id(started),
        "started": started,
        "finished": started + timedelta(seconds=1),
        "computed": 0,
        "dagster_runs": [],
        "configuration": canonical_json(configuration),
        "metrics": [{**one, "value": max(0.0, one["value"] - drop)} for one in row["metrics"]],
    }


def _write_snapshot(root: Path, evaluation: Evaluation, row: dict[str, Any]) -> None:
    earlier = replace(
        evaluation,
        evaluation_id=row["evaluation_id"],
        started=row["started"].isoformat(timespec="milliseconds"),
        finished=row["finished"].isoformat(timespec="milliseconds"),
        computed=0,
        dagster_runs=(),
        origin=replace(evaluation.origin, configuration=json.loads(row["configuration"])),
    )
    file = snapshot_file(root, earlier.evaluation_id)
    write_text(file, snapshot_text(earlier), durable=False)
