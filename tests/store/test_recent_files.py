from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.store.file_stamps import RecentFiles


class Reader:
    """Reads a file as a table of its bytes, and counts."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: Path) -> pa.Table:
        self.read.append(path.name)
        return pa.table({"byte": pa.array(list(path.read_bytes()), pa.uint8())})


def recent(largest: int = 100, together: int = 1000) -> RecentFiles[pa.Table]:
    return RecentFiles(lambda table: table.nbytes, largest, together)


def file(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_bytes(bytes(range(size)))
    return path


def test_a_file_is_read_once(tmp_path: Path) -> None:
    tables, reader = recent(), Reader()
    path = file(tmp_path, "a", 3)
    first = tables.get(path, reader)
    assert tables.get(path, reader) is first
    assert (first["byte"].to_pylist(), reader.read) == ([0, 1, 2], ["a"])


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    tables, reader = recent(), Reader()
    path = file(tmp_path, "a", 3)
    tables.get(path, reader)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        tables.get(path, reader)
    file(tmp_path, "a", 4)
    assert tables.get(path, reader).num_rows == 4
    assert reader.read == ["a", "a"]


def test_a_file_that_was_changed_and_given_its_old_time_is_read_again(tmp_path: Path) -> None:
    tables, reader = recent(), Reader()
    path = file(tmp_path, "a", 3)
    before = path.stat()
    tables.get(path, reader)
    path.write_bytes(b"xyz")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tables.get(path, reader)["byte"].to_pylist() == list(b"xyz")


def test_those_that_were_wanted_last_stay(tmp_path: Path) -> None:
    tables, reader = recent(largest=4, together=8), Reader()
    a, b, c = (file(tmp_path, name, 4) for name in "abc")
    for path in (a, b, a, c, a, b):
        tables.get(path, reader)
    assert reader.read == ["a", "b", "c", "b"]


def test_a_large_table_is_not_kept(tmp_path: Path) -> None:
    tables, reader = recent(largest=4, together=8), Reader()
    path = file(tmp_path, "a", 5)
    assert tables.get(path, reader).equals(tables.get(path, reader))
    assert reader.read == ["a", "a"]
