"""Files of a store: writes that are complete, stamps, settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import StoreError
from rag_assets.store import file_stamps
from rag_assets.store.atomic import (
    TEMPORARY_MARK,
    atomic_directory,
    atomic_file,
    remove,
    write_text,
)
from rag_assets.store.file_stamps import SourceFiles, remembered
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.settings import StoreSettings


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


def test_what_was_read_is_remembered_as_long_as_the_file_stays(tmp_path: Path) -> None:
    read: list[str] = []

    @remembered(2)
    def content(path: Path) -> str:
        read.append(path.name)
        return path.read_text()

    a, b, c = (tmp_path / name for name in "abc")
    for path in (a, b, c):
        path.write_text(path.name)
    for path in (a, b, a, c, a, b):
        assert content(path) == path.name
    assert read == ["a", "b", "c", "b"]
    before = b.stat()
    b.write_text("x")
    os.utime(b, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert content(b) == "x"
    b.unlink()
    with pytest.raises(FileNotFoundError):
        content(b)


VARIABLES = ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_default_lies_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = StoreSettings.resolve()
    assert settings.store == settings.state_dir == tmp_path / "data" / "store"


def test_environment_gives_both_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", "far/store")
    assert StoreSettings.resolve() == StoreSettings(tmp_path / "far/store", tmp_path / "far/store")
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(tmp_path / "near"))
    assert StoreSettings.resolve() == StoreSettings(tmp_path / "far/store", tmp_path / "near")


def test_argument_wins_and_holds_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES[:2]:
        monkeypatch.setenv(name, str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path)
    settings = StoreSettings.resolve("mine")
    assert settings.store == settings.state_dir == tmp_path / "mine"


def test_places_below_the_state_folder(tmp_path: Path) -> None:
    settings = StoreSettings(tmp_path / "store", tmp_path / "state")
    assert settings.dagster_home == tmp_path / "state" / "dagster"
    assert not settings.has_dagster_home
    for place in (settings.warehouse, settings.locks, settings.registry):
        assert place.parent == tmp_path / "state"


def test_own_dagster_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    settings = StoreSettings.resolve(tmp_path / "store")
    assert settings.has_dagster_home
    assert settings.dagster_home == tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_text(f"content of {name}")
        age(root / name, 60)
    return root


def age(file: Path, seconds: float) -> None:
    """Make a file look as if it was edited so many seconds ago."""
    then = time.time_ns() - int(seconds * 1e9)
    os.utime(file, ns=(then, then))


def digest(folder: Path, cache: Path | None = None) -> str:
    return SourceFiles(cache).digest(sorted(folder.iterdir()), folder)


def test_touch_changes_nothing(folder: Path, tmp_path: Path) -> None:
    before = digest(folder, tmp_path / "cache")
    os.utime(folder / "a")
    assert digest(folder, tmp_path / "cache") == before


@pytest.mark.parametrize("cached", [False, True])
def test_edit_and_rename_change_the_digest(folder: Path, tmp_path: Path, cached: bool) -> None:
    cache = tmp_path / "cache" if cached else None
    first = digest(folder, cache)
    (folder / "a").write_text("content of A")  # of the same size
    second = digest(folder, cache)
    (folder / "a").rename(folder / "c")
    third = digest(folder, cache)
    assert len({first, second, third}) == 3


def test_unchanged_file_is_not_read_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest(folder, tmp_path / "cache")
    monkeypatch.setattr(file_stamps, "file_digest", None)
    assert digest(folder, tmp_path / "cache") == before
    with pytest.raises(TypeError):
        digest(folder)


def test_file_that_was_just_edited_is_not_trusted(folder: Path, tmp_path: Path) -> None:
    """Where times are coarse, a second edit within the same tick shows in the content only."""
    file = folder / "a"
    age(file, 0)
    status = file.stat()
    before = digest(folder, tmp_path / "cache")
    file.write_text("CONTENT OF A")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest(folder, tmp_path / "cache") != before


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_corrupt_cache_is_ignored_and_repaired(folder: Path, tmp_path: Path, content: str) -> None:
    cache = tmp_path / "cache"
    cache.write_text(content)
    assert digest(folder, cache) == digest(folder)
    assert set(json.loads(cache.read_text())) == {str(folder / "a"), str(folder / "b")}


TABLE = pa.table({"first": [1, 2], "second": ["a", None], "third": [[1.0], []]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Below a folder whose name looks like a column."""
    folder = tmp_path / "retriever=bm25"
    folder.mkdir()
    pq.write_table(TABLE, folder / "table.parquet")
    return folder / "table.parquet"


def test_a_file_is_its_columns_in_the_order_asked_for(file: Path) -> None:
    assert read_parquet(file) == TABLE
    assert read_parquet(file, ["third", "first"]) == TABLE.select(["third", "first"])


def test_what_cannot_be_read(file: Path, tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid, match="no column fourth"):
        read_parquet(file, ["first", "fourth"])
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "nothing.parquet")
    file.write_bytes(b"PAR1")
    with pytest.raises(pa.ArrowInvalid):
        read_parquet(file)


def test_no_data_sets_and_no_pandas_are_imported(file: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from rag_assets.store.parquet_files import read_parquet; "
        f"read_parquet(Path({str(file)!r}), ['first']); "
        "sys.exit(len(sys.modules.keys() & {'pandas', 'pyarrow.dataset'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
