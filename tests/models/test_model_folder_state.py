"""A model's folder is read once, and again when any file in it is another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.models.model_files import kept_while_unchanged


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model" / "1_Pooling").mkdir(parents=True)
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    (tmp_path / "blob").write_text("one")
    (tmp_path / "model" / "tokenizer.json").symlink_to(tmp_path / "blob")
    return tmp_path / "model"


def content(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def same_size_and_later(folder: Path) -> None:
    file = folder / "1_Pooling" / "config.json"
    before = file.stat().st_mtime_ns
    file.write_text('{"pooling_mode": "max"}')
    os.utime(file, ns=(before + 1, before + 1))


def replaced(folder: Path) -> None:
    status = (folder / "config.json").stat()
    (folder / "new").write_text("[]")
    os.utime(folder / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (folder / "new").replace(folder / "config.json")


def behind_a_link(folder: Path) -> None:
    (folder.parent / "blob").write_text("two and more")


def added(folder: Path) -> None:
    (folder / "1_Pooling" / "modules.json").write_text("[]")


def removed(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def link_to_nothing(folder: Path) -> None:
    (folder.parent / "blob").unlink()


@pytest.mark.parametrize(
    "change", [same_size_and_later, replaced, behind_a_link, added, removed, link_to_nothing]
)
def test_every_change_is_read(folder: Path, change: Callable[[Path], None]) -> None:
    n_reads = 0

    @kept_while_unchanged
    def read(folder: Path, kind: str) -> tuple[str, dict[str, str]]:
        nonlocal n_reads
        n_reads += 1
        return kind, content(folder)

    before = [read(folder, "query") for _ in range(3)]
    assert n_reads == 1
    assert read(folder, "document")[0] == "document"
    change(folder)
    assert read(folder, "query") == ("query", content(folder)) != before[0]
    assert n_reads == 3
