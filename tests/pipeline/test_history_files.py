"""How the files of a history are compacted, whoever is killed or reads meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rag_assets.errors import StoreError
from rag_assets.pipeline import history_files
from rag_assets.pipeline.history_files import HistoryFiles, is_compacted
from tests.pipeline.made_history import evaluation_id, made_rows

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryFiles:
    monkeypatch.setattr(history_files, "COMPACTED", 3)
    return HistoryFiles(tmp_path / "made", tmp_path / "locks")


def ids_of(files: HistoryFiles) -> list[str]:
    ids: list[str] = files.table(["evaluation_id"]).column("evaluation_id").to_pylist()
    return ids


def test_rows_lie_in_few_files_and_none_changes(files: HistoryFiles, tmp_path: Path) -> None:
    for number in range(20):
        files.add(made_rows([number]))
    assert files.table().equals(made_rows(range(20)))
    assert [pq.read_metadata(path).num_rows for path in files.paths()] == [3] * 6 + [1, 1]
    others = HistoryFiles(tmp_path / "other", tmp_path / "locks")
    for number in range(20):
        others.add(made_rows([number]))
    same = [[path.name for path in one.paths()] for one in (files, others)]
    assert same[0] == same[1], "the same rows have the same names on all machines"


def test_rows_are_in_the_order_of_time_whenever_they_were_added(files: HistoryFiles) -> None:
    numbers = list(range(40))
    random.Random(3).shuffle(numbers)
    for begin in range(0, 40, 2):
        files.add(made_rows(sorted(numbers[begin : begin + 2])))
    whole = made_rows(range(40))
    assert files.table().equals(whole)


def test_many_rows_at_once_are_one_file(files: HistoryFiles) -> None:
    files.add(made_rows(range(20)))
    (path,) = files.paths()
    assert path.name.startswith(f"{evaluation_id(0)}--{evaluation_id(19)}.")


def test_files_that_a_killed_process_left_lose_and_double_nothing(files: HistoryFiles) -> None:
    """It was killed when a new file was there, and some of those that it replaces were gone."""
    for number in range(2):
        files.add(made_rows([number]))
    single = {path: path.read_bytes() for path in files.paths()}
    files.add(made_rows([2]))
    (compacted,) = files.paths()
    new = compacted.read_bytes()
    for n_left in range(1, 3):
        shutil.rmtree(files.folder)
        files.folder.mkdir()
        compacted.write_bytes(new)
        for path in list(single)[-n_left:]:
            path.write_bytes(single[path])
        assert ids_of(files) == [evaluation_id(number) for number in range(3)]
        for number in range(3, 6):
            files.add(made_rows([number]))
        assert files.table().equals(made_rows(range(6)))
        assert sum(not is_compacted(path) for path in files.paths()) < 3


def test_a_store_of_an_older_program_is_read_and_compacted(files: HistoryFiles) -> None:
    """Its files have no digest in their names."""
    files.folder.mkdir(parents=True)
    for begin in range(0, 50, 5):
        name = f"{evaluation_id(begin)}--{evaluation_id(begin + 4)}.parquet"
        pq.write_table(made_rows(range(begin, begin + 5)), files.folder / name)
    for number in range(50, 58):
        pq.write_table(made_rows([number]), files.folder / f"{evaluation_id(number)}.parquet")
    whole = made_rows(range(58))
    assert files.table().equals(whole)
    files.add(made_rows([58]))
    assert files.table().equals(made_rows(range(59)))
    assert len(files.paths()) == 10 + 3


def test_a_file_that_is_damaged_stays_and_takes_nothing_with_it(files: HistoryFiles) -> None:
    files.add(made_rows([0]))
    (damaged,) = files.paths()
    content = bytearray(damaged.read_bytes())
    content[-20] ^= 1
    damaged.write_bytes(content)
    for number in range(1, 8):
        files.add(made_rows([number]))
    assert damaged.read_bytes() == content
    with pytest.raises(StoreError, match="not a readable history"):
        files.ids()
    damaged.unlink()
    assert ids_of(files) == [evaluation_id(number) for number in range(1, 8)]
    assert sum(not is_compacted(path) for path in files.paths()) == 1


def test_a_column_that_an_old_file_lacks_is_null(files: HistoryFiles) -> None:
    files.folder.mkdir(parents=True)
    old = files.folder / f"{evaluation_id(0)}.parquet"
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
