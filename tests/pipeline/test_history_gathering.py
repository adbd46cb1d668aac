"""How the files of a history are gathered, whoever is killed or reads meanwhile."""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rag_assets.errors import StoreError
from rag_assets.pipeline import history_gathering
from rag_assets.pipeline.history_files import HistoryFiles
from tests.pipeline.made_history import evaluation_id, made_rows

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryFiles:
    monkeypatch.setattr(history_gathering, "GATHERED", 3)
    monkeypatch.setattr(history_gathering, "LARGEST", 27)
    return HistoryFiles(tmp_path / "made", tmp_path / "locks")


def ids_of(files: HistoryFiles) -> list[str]:
    ids: list[str] = files.table(["evaluation_id"]).column("evaluation_id").to_pylist()
    return ids


def test_rows_lie_in_few_files_and_none_changes(files: HistoryFiles) -> None:
    for number in range(60):
        files.add(made_rows([number]))
        most = number // 27 + 2 * (1 + math.ceil(math.log(number + 1, 3)))
        assert len(files.paths()) <= most
    assert files.table().equals(made_rows(range(60)))
    sizes = sorted(pq.read_metadata(path).num_rows for path in files.paths())
    assert sizes == [3, 3, 27, 27]


def test_the_newest_are_those_of_all(files: HistoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where old rows came last, so that files overlap, and a file has several row groups."""
    monkeypatch.setattr(history_gathering, "ROWS_AT_ONCE", 4)
    numbers = list(range(40))
    random.Random(3).shuffle(numbers)
    for begin in range(0, 40, 2):
        files.add(made_rows(sorted(numbers[begin : begin + 2])))
    whole = made_rows(range(40))
    assert files.table().equals(whole)
    for most in (1, 5, 39, 60):
        assert files.newest(whole.column_names, most) == whole.to_pylist()[-most:]


def test_many_rows_at_once_are_one_file(files: HistoryFiles) -> None:
    files.add(made_rows(range(20)))
    assert [path.stem for path in files.paths()] == [f"{evaluation_id(0)}--{evaluation_id(19)}"]
    files.add(made_rows(range(20, 80)))
    assert files.table().equals(made_rows(range(80)))


def test_files_that_a_killed_process_left_lose_and_double_nothing(
    files: HistoryFiles, tmp_path: Path
) -> None:
    """It was killed when a new file was there, and some of those that it replaces were gone."""
    for number in range(26):
        files.add(made_rows([number]))
    before = {path: path.read_bytes() for path in files.paths()}
    files.add(made_rows([26]))  # gathers three times
    new = {path: path.read_bytes() for path in files.paths()}
    assert len(new) == 1
    kept = list(before)
    for n_left in range(1, len(kept) + 1):
        shutil.rmtree(files.folder)
        files.folder.mkdir()
        for path, content in {**new, **{path: before[path] for path in kept[-n_left:]}}.items():
            path.write_bytes(content)
        assert ids_of(files) == [evaluation_id(number) for number in range(27)]
        for number in range(27, 36):
            files.add(made_rows([number]))
        assert files.table().equals(made_rows(range(36)))
        single = [path for path in files.paths() if "--" not in path.stem]
        assert len(single) < 3


def test_a_store_of_an_older_program_is_read_and_gathered(
    files: HistoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gathered a hundred into one, and those never again."""
    files.folder.mkdir(parents=True)
    for begin in range(0, 50, 5):
        name = f"{evaluation_id(begin)}--{evaluation_id(begin + 4)}.parquet"
        pq.write_table(made_rows(range(begin, begin + 5)), files.folder / name)
    for number in range(50, 58):
        pq.write_table(made_rows([number]), files.folder / f"{evaluation_id(number)}.parquet")
    whole = made_rows(range(58))
    assert files.table().equals(whole)
    assert len(files.paths()) == 18
    files.gather()
    assert files.table().equals(whole)
    assert len(files.paths()) <= 6


def test_a_file_that_is_damaged_stays_and_takes_nothing_with_it(files: HistoryFiles) -> None:
    files.add(made_rows(range(9)))
    damaged = files.paths()[0]
    damaged.write_bytes(damaged.read_bytes()[:-20])
    content = damaged.read_bytes()
    for number in range(9, 30):
        files.add(made_rows([number]))
    assert damaged.read_bytes() == content
    with pytest.raises(StoreError, match="not a readable history"):
        files.ids()
    assert files.newest(["evaluation_id"], 2) == [
        {"evaluation_id": evaluation_id(number)} for number in (28, 29)
    ]
    damaged.unlink()
    assert ids_of(files) == [evaluation_id(number) for number in range(9, 30)]


def test_a_column_that_an_old_file_lacks_is_null(files: HistoryFiles) -> None:
    files.add(made_rows([0]))
    [old] = files.paths()
    old.with_suffix(".sha256").unlink()
    pq.write_table(made_rows([0]).drop_columns(["git_dirty"]), old)
    files.add(made_rows([1]))
    assert files.table(["evaluation_id", "git_dirty"]).column("git_dirty").to_pylist() == [
        None,
        True,
    ]
    pq.write_table(made_rows([0]).drop_columns(["complete"]), old)
    with pytest.raises(StoreError, match="no column complete"):
        files.table()


@pytest.mark.parametrize("seed", [0, 1])
def test_several_writers_of_which_one_is_killed(tmp_path: Path, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.made_history", tmp_path / "made", str(seed)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
