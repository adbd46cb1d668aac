"""Files of a store: writes that are complete, stamps, settings."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.errors import StoreError
from rag_assets.store.atomic import (
    TEMPORARY_MARK,
    atomic_directory,
    atomic_file,
    remove,
    write_text,
)
from rag_assets.store.file_stamps import RecentFiles


class InterruptedWork(Exception):
    pass


def test_file_appears_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    with atomic_file(file) as temporary:
        temporary.write_text("content")
        assert not file.exists()
    assert file.read_text() == "content"
    assert list(file.parent.iterdir()) == [file]


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def work() -> None:
        with atomic_file(file) as temporary:
            temporary.write_text("half")
            raise InterruptedWork

    with pytest.raises(InterruptedWork):
        work()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_directory_appears_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with atomic_directory(folder) as temporary:
        (temporary / "sub").mkdir()
        (temporary / "sub" / "file").write_text("content")
        assert not folder.exists()
    assert (folder / "sub" / "file").read_text() == "content"
    assert list(folder.parent.iterdir()) == [folder]


def test_directory_that_is_already_there_stays(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("first")
    with atomic_directory(folder) as temporary:
        (temporary / "file").write_text("second")
    assert (folder / "file").read_text() == "first"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("write", [atomic_file, atomic_directory])
def test_file_in_place_of_a_folder_is_a_store_error(tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="cannot write"), write(tmp_path / "file" / "sub" / "x"):
        pytest.fail("the block must not be entered")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_a_store_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match=r"cannot write .*file: Permission denied"):
            write_text(tmp_path / "file", "content")
        with pytest.raises(StoreError, match=r"Permission denied"):
            write_text(tmp_path / "sub" / "file", "content")
    finally:
        tmp_path.chmod(0o700)


def test_what_is_removed_is_gone_whatever_it_is(tmp_path: Path) -> None:
    unfinished = tmp_path / f"x{TEMPORARY_MARK}y"
    (unfinished / "inner").mkdir(parents=True)
    remove(unfinished)
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert (tmp_path / "folder" / "inner").is_dir()  # a link goes, not what it leads to
    remove(tmp_path / "folder")
    remove(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


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
