from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rag_assets.errors import StoreError
from rag_assets.store import locks
from rag_assets.store.artifacts import ArtifactStore
from rag_assets.store.locks import check_lease, exclusive_lease, shared_lease
from rag_assets.store.remote import LEASES_DIR
from rag_assets.store.settings import StoreSettings

ROOT = Path(__file__).parents[2]

ADD_ONE = """
import sys, time
from pathlib import Path
from rag_assets.store.artifacts import ArtifactStore
folder = Path(sys.argv[1])
store = ArtifactStore(folder / "store", folder / "locks")
for _ in range(20):
    with store.lock("metrics", ["bb", "aa"]):
        number = int((folder / "number").read_text())
        time.sleep(0.002)
        (folder / "number").write_text(str(number + 1))
"""


def test_two_processes_never_hold_one_lock(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", ADD_ONE, str(tmp_path)]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert (tmp_path / "number").read_text() == "40"


def test_error_of_the_work_is_not_blamed_on_the_lock(tmp_path: Path) -> None:
    def work() -> None:
        with ArtifactStore(tmp_path, tmp_path).lock("metrics", ["aa"]):
            raise PermissionError("of something else")

    with pytest.raises(PermissionError, match="of something else"):
        work()


HOLDER = """
import sys, time
from pathlib import Path
from rag_assets.store.locks import shared_lease, exclusive_lease
from rag_assets.store.settings import StoreSettings
with {kind}(StoreSettings.resolve(sys.argv[1]), "an evaluation of ferry"):
    print("held", flush=True)
    time.sleep(60)
"""


def held(store: Path) -> list[Path]:
    return sorted((store / LEASES_DIR).glob("*.json"))


def local(folder: Path) -> StoreSettings:
    return StoreSettings(folder, folder)


def holder(store: Path, kind: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER.format(kind=kind), str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def elsewhere(store: Path, kind: str, *, seconds_ago: float = 0) -> Path:
    """Write the lease of another machine."""
    fields: dict[str, object] = {"kind": kind, "what": "an evaluation of ferry", "host": "north"}
    fields |= {"process": 1, "since": "2026-01-01T00:00:00+00:00", "machine": "another"}
    file = store / LEASES_DIR / "0.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(fields))
    then = time.time() - seconds_ago
    os.utime(file, (then, then))
    return file


def test_a_lease_is_there_as_long_as_the_block(tmp_path: Path) -> None:
    with shared_lease(local(tmp_path), "a"), shared_lease(local(tmp_path), "b"):
        assert len(held(tmp_path)) == 1
        check_lease(local(tmp_path))
    assert held(tmp_path) == []
    with pytest.raises(KeyError), exclusive_lease(local(tmp_path), "c"):
        raise KeyError
    assert held(tmp_path) == []


@pytest.mark.parametrize("kind", ["shared_lease", "exclusive_lease"])
def test_nothing_is_removed_while_another_process_is_at_work_and_lives(
    tmp_path: Path, kind: str
) -> None:
    process = holder(tmp_path, kind)
    try:
        refused = pytest.raises(StoreError, match=f"^an evaluation of .*process {process.pid}")
        with refused, exclusive_lease(local(tmp_path), "clean"):
            raise AssertionError
        assert len(held(tmp_path)) == 1
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    with exclusive_lease(local(tmp_path), "clean"):
        assert len(held(tmp_path)) == 1  # its own: that of the dead one is gone


def test_an_evaluation_waits_for_what_removes(tmp_path: Path) -> None:
    lease = elsewhere(tmp_path, "removes")
    threading.Timer(0.3, lease.unlink).start()
    started = time.monotonic()
    with shared_lease(local(tmp_path), "an evaluation"):
        assert time.monotonic() - started > 0.25


def test_that_of_another_machine_ends_when_it_is_not_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the times of files: clocks of machines do not matter."""
    elsewhere(tmp_path, "evaluates", seconds_ago=locks.ENDS - 10)
    with pytest.raises(StoreError, match="north"), exclusive_lease(local(tmp_path), "clean"):
        raise AssertionError
    elsewhere(tmp_path, "evaluates", seconds_ago=locks.ENDS + 10)
    with exclusive_lease(local(tmp_path), "clean"):
        assert [file.name for file in held(tmp_path)] != ["0.json"]
    elsewhere(tmp_path, "evaluates")
    monkeypatch.setattr(time, "time", lambda: 1e10)
    with pytest.raises(StoreError, match="north"), exclusive_lease(local(tmp_path), "clean"):
        raise AssertionError


def test_it_is_renewed_and_whoever_overslept_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "RENEWED", 0.02)
    with shared_lease(local(tmp_path), "an evaluation of ferry"):
        (file,) = held(tmp_path)
        os.utime(file, (1, 1))
        while file.stat().st_mtime < 2:
            time.sleep(0.01)
        file.unlink()  # another machine took it for ended
        time.sleep(0.1)
        assert held(tmp_path) == []
        with pytest.raises(StoreError, match="an evaluation of ferry was suspended"):
            check_lease(local(tmp_path))


def test_without_proc_a_machine_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS; where there is one, two containers of a machine are two machines."""
    with_proc = locks._machine.__wrapped__()

    def missing(path: Path, *_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "read_text", missing)
    name = locks._machine.__wrapped__()
    assert len(name) == len(with_proc) == 16
    assert name == locks._machine.__wrapped__()


def test_machines_see_each_other_on_s3(
    s3_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = []
    for name in ("a", "b"):
        monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(tmp_path / name))
        stores.append(StoreSettings.resolve(s3_store))
    with shared_lease(stores[0], "an evaluation of ferry"):
        with (
            pytest.raises(StoreError, match="an evaluation of ferry"),
            exclusive_lease(stores[1], "x"),
        ):
            raise AssertionError
        check_lease(stores[0])
    refused = pytest.raises(StoreError, match="clean")
    with exclusive_lease(stores[1], "clean"), refused, exclusive_lease(stores[0], "clean"):
        raise AssertionError
