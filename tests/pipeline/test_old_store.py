"""A store that commit 4762f57 wrote, by partition: two evaluations with another k1, one pinned."""

from __future__ import annotations

import tarfile
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.pipeline.evaluations import intact_path, read_current, table_of
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.schemas import RELEVANT_UNITS
from rag_assets.store.settings import StoreSettings

ARCHIVE = Path(__file__).parent / "old_store.tar.gz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def said(folder: Path, *words: str) -> str:
    runner = CliRunner(env={"COLUMNS": "120"})
    arguments = [words[0], str(folder / "notes"), *words[1:], "--store", str(folder / "store")]
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def files(folder: Path) -> dict[str, bytes]:
    found = (folder / "store" / "ferry").rglob("*.*")
    kept = ("current", "report.html")
    return {
        str(path): path.read_bytes() for path in found if path.is_file() and path.name not in kept
    }


def test_an_asset_that_was_renamed_is_read(old: Path) -> None:
    root = old / "store" / "ferry"
    evaluation = read_current(root)
    entries = evaluation.entries_of("relevant_units")
    assert entries
    assert evaluation.entries_of("judgments") == []
    assert {intact_path(root, evaluation, e).is_file() for e in entries} == {True}
    (names,) = {tuple(table_of(root, evaluation, e).column_names) for e in entries}
    assert names == tuple(RELEVANT_UNITS.arrow().names)
    warehouse = rebuild(StoreSettings.resolve(old / "store"))
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        rows = connection.sql("SELECT unit_id, item_id FROM runs").fetchall()
    assert rows
    assert all(unit == item for unit, item in rows)


def test_it_is_evaluated_again_and_loses_nothing(old: Path) -> None:
    before = files(old)
    pinned = (old / "store" / "ferry" / "anchor").read_text()
    first = said(old, "evaluate", "--take-over")
    assert first.count("the store is of an older version: results are computed again") == 1
    assert before.items() <= files(old).items()
    again = said(old, "evaluate")
    assert "older version" not in again
    assert " 0 partitions computed" in again
    assert said(old, "history", "--format", "csv").count("\n") >= 3
    assert (old / "store" / "ferry" / "anchor").read_text() == pinned
    assert "sharp" in said(old, "diff", "anchor", "latest")
