from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.errors import StoreError
from rag_assets.store.artifacts import ArtifactStore
from rag_assets.store.locks import locked

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


def test_lock_is_free_after_an_exception(tmp_path: Path) -> None:
    def work() -> None:
        with locked(tmp_path / "x.lock"):
            raise RuntimeError("work failed")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="work failed"):
            work()


def test_error_of_the_work_is_not_blamed_on_the_lock(tmp_path: Path) -> None:
    def work() -> None:
        with ArtifactStore(tmp_path, tmp_path).lock("metrics", ["aa"]):
            raise PermissionError("of something else")

    with pytest.raises(PermissionError, match="of something else"):
        work()


def test_place_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="cannot write"), locked(tmp_path / "file" / "x.lock"):
        pytest.fail("the block must not be entered")
