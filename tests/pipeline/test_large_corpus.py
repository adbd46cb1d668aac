"""A corpus whose tables are files, of which only pages are in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rag_assets.evaluation import contexts_stage
from rag_assets.retrieval import array_folder
from rag_assets.store import large_tables
from tests.nets.options import contents
from tests.tiny_experiment import Tiny

JUDGES = ["document", "evidence"]


@pytest.mark.parametrize("judge", JUDGES)
def test_it_gives_what_a_small_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    small, large = Tiny(tmp_path / "small"), Tiny(tmp_path / "large")
    for tiny in (small, large):
        tiny.config["dataset"]["judge"] = judge
        tiny.write()
    small.run()
    for module, limit in (
        (large_tables, "IN_MEMORY_BYTES"),
        (large_tables, "PORTION_BYTES"),
        (array_folder, "IN_MEMORY"),
    ):
        monkeypatch.setattr(module, limit, 0)
    monkeypatch.setattr(large_tables, "IDS_AT_ONCE", 2)
    monkeypatch.setattr(array_folder, "IDS_AT_ONCE", 2)
    monkeypatch.setattr(contexts_stage, "ROWS_AT_ONCE", 2)
    files, new_file = list[Path | None](), tempfile.TemporaryFile

    def counted(dir: Path | None) -> object:
        files.append(dir)
        return new_file(dir=dir)

    monkeypatch.setattr(f"{large_tables.__name__}.TemporaryFile", counted)
    large.run()
    assert len(files) > 30
    assert contents(large) == contents(small)
