from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage

from rag_assets.assets import instance as dagster_instance
from rag_assets.assets.instance import TESTED_WITH, SqliteEventLog, open_instance
from rag_assets.store.settings import StoreSettings
from tests.installed import python


@dg.asset
def grown() -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"rows": 3}, data_version=dg.DataVersion("one"))


def materialize(instance: dg.DagsterInstance, runs: int) -> list[str]:
    return [dg.materialize([grown], instance=instance).run_id for _ in range(runs)]


def plain(folder: Path) -> dg.DagsterInstance:
    """The instance as `dagster dev` opens it."""
    storage = {"storage": {"sqlite": {"base_dir": str(folder)}}}
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=storage))


@pytest.fixture
def settings(tmp_path: Path) -> StoreSettings:
    return StoreSettings.resolve(tmp_path / "store")


def schema(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in folder.rglob("*.db"):
        name = path.stem if path.stem in ("index", "runs", "schedules") else "a run"
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
            rows += database.execute("SELECT * FROM alembic_version").fetchall()
            (mode,) = database.execute("PRAGMA journal_mode").fetchone()
        assert found.setdefault(name, [*map(str, rows), mode]) == [*map(str, rows), mode]
    return found


def test_databases_are_those_of_dagster(settings: StoreSettings, tmp_path: Path) -> None:
    other = tmp_path / "plain"
    other.mkdir()
    with open_instance(settings) as ours, plain(other) as theirs:
        assert isinstance(ours.event_log_storage, SqliteEventLog)
        materialize(ours, 2)
        materialize(theirs, 2)
    found = schema(settings.dagster_home)
    assert set(found) == {"index", "runs", "schedules", "a run"}
    assert found == schema(other)


def test_no_migration_is_read_where_the_databases_are_complete(
    settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster has 89, and reads all of them for each of four databases."""
    with open_instance(settings) as ours:
        runs = materialize(ours, 1)

    def never(config: Config) -> None:
        raise AssertionError(config)

    monkeypatch.setattr(ScriptDirectory, "from_config", never)
    with open_instance(settings) as ours:
        seen(ours, [*runs, *materialize(ours, 2)])


@pytest.fixture(autouse=True)
def _this_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dagster_instance, "TESTED_WITH", TESTED_WITH)


def test_the_version_that_is_installed_is_the_one_that_was_tested() -> None:
    """Run the tests of this folder with a new one, then name it."""
    assert dg.__version__ == TESTED_WITH


@pytest.mark.parametrize(
    "name", ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"]
)
def test_what_a_killed_process_left_of_a_database_is_completed(
    settings: StoreSettings, name: str
) -> None:
    """A database is an empty file before it has tables."""
    file = settings.dagster_home / "history" / f"{name}.db"
    file.parent.mkdir(parents=True)
    file.touch()
    with open_instance(settings) as ours:
        seen(ours, materialize(ours, 1))
        assert ours.event_log_storage.supports_asset_checks


OPEN_AT_ONCE = """
import os, sys, traceback
from rag_assets.assets import instance as dagster_instance
from rag_assets.assets.instance import open_instance
from rag_assets.store.settings import StoreSettings

for dagster_instance.TESTED_WITH in (dagster_instance.TESTED_WITH, "another"):
    begin, held = os.pipe()
    for _ in range(3):
        if os.fork() == 0:
            os.close(held)
            os.read(begin, 1)
            try:
                for store in sys.argv[1:]:
                    place = f"{store} of {dagster_instance.TESTED_WITH}"
                    with open_instance(StoreSettings.resolve(place)) as instance:
                        instance.get_runs_count()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    os.close(held)
    print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(3)])
"""


def test_processes_that_begin_at_once_create_one_instance(tmp_path: Path) -> None:
    """With the storage that stays open, and with that of Dagster itself."""
    stores = [str(tmp_path / f"store{n}") for n in range(2)]
    done = python(tmp_path, "-c", OPEN_AT_ONCE, *stores)
    assert done.stdout == "[0, 0, 0]\n[0, 0, 0]\n", done.stderr


def seen(instance: dg.DagsterInstance, runs: list[str]) -> None:
    """Every run succeeded, with all its events, and reported the asset."""
    assert {run.run_id: run.status for run in instance.get_runs()} == dict.fromkeys(
        runs, dg.DagsterRunStatus.SUCCESS
    )
    for run in runs:
        kinds = [str(entry.dagster_event_type) for entry in instance.all_logs(run)]
        assert kinds.count(str(dg.DagsterEventType.ASSET_MATERIALIZATION)) == 1
        assert kinds[-1] == str(dg.DagsterEventType.RUN_SUCCESS)
    reported = instance.fetch_materializations(grown.key, limit=9).records
    assert [record.run_id for record in reported] == runs[::-1]


def test_ours_and_dagsters_own_go_on_where_the_other_was_and_read_all_also_meanwhile(
    settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.dagster_home.mkdir(parents=True)
    with plain(settings.dagster_home) as theirs:
        runs = materialize(theirs, 1)
    with open_instance(settings) as ours:
        runs += materialize(ours, 2)
        with plain(settings.dagster_home) as theirs:
            seen(theirs, runs)
    monkeypatch.setattr(dagster_instance, "TESTED_WITH", "another")
    with open_instance(settings) as theirs:
        assert type(theirs.event_log_storage) is SqliteEventLogStorage
        assert type(theirs.run_storage) is SqliteRunStorage
        runs += materialize(theirs, 1)
    with plain(settings.dagster_home) as theirs:
        seen(theirs, runs)


@pytest.mark.parametrize("tested_with", [TESTED_WITH, "another"])
def test_a_path_is_no_address_and_no_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tested_with: str
) -> None:
    name = 'it\'s ?*%41 [1] # "{b}" $;&'
    monkeypatch.setattr(dagster_instance, "TESTED_WITH", tested_with)
    for _ in range(2):
        with open_instance(StoreSettings.resolve(tmp_path / name)) as instance:
            materialize(instance, 1)
            n_runs = len(instance.get_run_ids())
            assert len(instance.event_log_storage.get_all_run_ids()) == n_runs  # type: ignore[attr-defined]  # of SQLite's only
    assert n_runs == 2
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert (tmp_path / name / "dagster" / "history" / "runs.db").is_file()
