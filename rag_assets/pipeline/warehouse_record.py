"""What ``warehouse.duckdb`` was built from, so that it is known when it is not that any more.

The record lies beside the file: the snapshots by their content, the code that lays out the tables,
where the store lay, and the stamp and SHA-256 of the file itself. A process that was killed between
any two writes leaves a record that does not fit, and so does whatever damages the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.engine.measurements import MEASURED_FILES
from rag_assets.errors import StoreError
from rag_assets.package_versions import version
from rag_assets.pipeline.evaluations import (
    CURRENT,
    FOLDER,
    all_experiments,
    pointed,
    read_evaluation,
)
from rag_assets.pipeline.remote_sync import HISTORY
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint
from rag_assets.store.remote.mirror import working_copy_of
from rag_assets.store.settings import StoreSettings

_PACKAGE = Path(__file__).parents[1]

_LAYOUT = (
    "pipeline/warehouse.py",
    "pipeline/history.py",
    "pipeline/stages.py",
    "schemas.py",
    "store/sql_paths.py",
)
"""The modules that say which tables there are; imported only when the warehouse is built."""

Snapshots = Mapping[str, Sequence[str | None]]
"""Experiment -> id and content of its current evaluation; None: it cannot be read."""


def is_up_to_date(settings: StoreSettings) -> bool:
    """Return whether the warehouse is what the store as it is now would make of it."""
    record = _read(settings)
    file = record.get("file", {})
    return (
        _is_file(settings.warehouse, file)
        and not write_ahead_log(settings).exists()
        and record.get("made") == _made(settings)
        and not any((settings.store / path).exists() for path in record.get("left_out", ()))
        and _are_current(settings.store, record.get("snapshots", {}))
    )


def save(settings: StoreSettings, snapshots: Snapshots, left_out: Sequence[str]) -> None:
    """Write the record of a warehouse that was just built.

    Args:
        settings: where it is.
        snapshots: of all experiments of the store.
        left_out: paths below the store of what they name and is gone.

    Raises:
        StoreError: the folder cannot be written.
    """
    record = {
        "made": _made(settings),
        "snapshots": snapshots,
        "left_out": left_out,
        "file": {"stamp": _stamp(settings.warehouse), "sha256": _sha256(settings.warehouse)},
    }
    text = json.dumps({**record, "sha256": fingerprint(record)})
    write_text(_file(settings), text, durable=False)


def write_ahead_log(settings: StoreSettings) -> Path:
    """Return where DuckDB keeps what somebody wrote into the file; it belongs to that file only."""
    return settings.warehouse.with_name(f"{settings.warehouse.name}.wal")


def _file(settings: StoreSettings) -> Path:
    return settings.warehouse.with_suffix(".json")


def _read(settings: StoreSettings) -> Mapping[str, Any]:
    try:
        record = json.loads(_file(settings).read_text(encoding="utf-8"))
        stated = record.pop("sha256")
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return {}
    return record if stated == fingerprint(record) else {}


def _made(settings: StoreSettings) -> str:
    """Return the hash of what lays out the tables, of where they look, and of what is there."""
    there = [
        any(settings.store.glob(pattern)) for pattern in (f"*/{HISTORY}/*.parquet", MEASURED_FILES)
    ]
    places = [str(place.resolve()) for place in (settings.store, settings.state_dir)]
    code = [_sha256(_PACKAGE / source) for source in _LAYOUT]
    return fingerprint([code, version("duckdb"), places, there])


def _are_current(store: Path, built_from: Snapshots) -> bool:
    roots = {root.name: root for root in all_experiments(store)}
    return roots.keys() == built_from.keys() and all(
        _is_current(roots[name], *built_from[name]) for name in roots
    )


def _is_current(root: Path, evaluation_id: str | None, content: str | None) -> bool:
    try:
        current = pointed(root / CURRENT)
        if current == evaluation_id:
            return True
        # Of another machine's evaluation, the row of the history comes when it is built.
        if working_copy_of(root) is not None:
            return False
        return read_evaluation(root / FOLDER / f"{current}.json").content == content
    except StoreError:
        return content is None


def _is_file(path: Path, known: Mapping[str, Any]) -> bool:
    try:
        if _stamp(path) == known.get("stamp"):
            return True
        return _sha256(path) == known.get("sha256")
    except OSError:
        return False


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
