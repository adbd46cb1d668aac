"""Rows of a history of made evaluations; and processes that write and read one at once.

``python -m tests.pipeline.made_history ROOT SEED`` lets three processes add rows below ROOT while
this one reads, kills one of them, and fails when a row is missing that was added before a reading.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.pipeline import history_files as history_module
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.schemas import HISTORY

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WRITERS, ROWS = 3, 20


def evaluation_id(number: int) -> str:
    return f"{BEGIN + timedelta(hours=number):%Y%m%dT%H%M%S%f}-{number % 65536:04x}"


def made_rows(numbers: Iterable[int]) -> pa.Table:
    """Rows of the evaluations of these hours."""
    return pa.Table.from_pylist([_row(number) for number in numbers], schema=HISTORY.arrow())


def _row(number: int) -> dict[str, Any]:
    started = BEGIN + timedelta(hours=number)
    nothing = {"string": "x", "int64": 0, "int32": 1, "bool": True}
    cell = {"retriever": "bm25", "split": "all", "top_k": 5, "metric": "ndcg", "n_queries": 3}
    return {
        **{field.name: nothing.get(str(field.type)) for field in HISTORY.arrow()},
        "experiment": "made",
        "evaluation_id": evaluation_id(number),
        "started": started,
        "finished": started,
        "dagster_runs": [],
        "retrievers": [],
        "metrics": [{**cell, "value": number / 7}],
    }


def _write(root: Path, writer: int) -> None:
    files = HistoryFiles(root, root.parent / "locks")
    done = root.parent / f"done-{writer}"
    for number in range(writer, WRITERS * ROWS, WRITERS):
        files.add(made_rows([number]))
        with done.open("a", encoding="utf-8") as log:
            log.write(f"{evaluation_id(number)}\n")


def _forked(root: Path, writer: int) -> int:
    process = os.fork()
    if process == 0:
        code = 1
        try:
            _write(root, writer)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    return process


def _added(root: Path) -> set[str]:
    logs = root.parent.glob("done-*")
    return {name for log in logs for name in log.read_text(encoding="utf-8").splitlines()}


def main() -> None:
    """Write, read and kill; what was found to be wrong is raised."""
    root, chance = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    history_module.COMPACTED = 3
    writers = [_forked(root, writer) for writer in range(WRITERS)]
    wanted = chance.randrange(1, WRITERS * ROWS)
    alive = set(writers)
    while alive:
        before = _added(root)
        missing = before - HistoryFiles(root, root.parent / "locks").ids()
        if missing:
            raise SystemExit(f"missing after {len(before)}: {sorted(missing)}")
        if len(before) >= wanted and writers[0] in alive:
            os.kill(writers[0], signal.SIGKILL)
        for writer in list(alive):
            process, status = os.waitpid(writer, os.WNOHANG)
            if process:
                alive.discard(writer)
                if writer != writers[0] and status:
                    raise SystemExit(f"a writer failed: {status}")
        time.sleep(0.01)
    if not _added(root) <= HistoryFiles(root, root.parent / "locks").ids():
        raise SystemExit("rows are missing at the end")


if __name__ == "__main__":
    main()
