from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rag_assets.store import file_stamps
from rag_assets.store.file_stamps import SourceFiles


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
