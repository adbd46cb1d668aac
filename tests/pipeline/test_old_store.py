"""A store that commit 4762f57 wrote, by partition: two evaluations with another k1, one pinned."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from rag_assets.cli import main

ARCHIVE = Path(__file__).parent / "old_store.tar.gz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def printed(folder: Path, *words: str) -> str:
    runner = CliRunner(env={"COLUMNS": "120"})
    arguments = [words[0], str(folder / "notes"), *words[1:], "--store", str(folder / "store")]
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def files(folder: Path) -> dict[str, bytes]:
    paths = (folder / "store" / "ferry").rglob("*.*")
    return {
        str(path): path.read_bytes()
        for path in paths
        if path.is_file() and path.name not in ("current", "report.html")
    }


def test_only_its_history_is_read(old: Path) -> None:
    assert printed(old, "history", "--format", "csv").count("\n") == 7
    arguments = ["leaderboard", str(old / "notes"), "--store", str(old / "store")]
    refused = CliRunner().invoke(main, [*arguments])
    assert refused.exit_code == 3
    assert refused.stderr.endswith(
        "of ferry is from before 0.1.0: only its history is read; evaluate ferry again\n"
    )


def test_it_is_evaluated_again_and_loses_nothing(old: Path) -> None:
    before = files(old)
    pinned = (old / "store" / "ferry" / "anchor").read_text()
    printed(old, "evaluate", "--take-over")
    assert before.items() <= files(old).items()
    assert " 0 partitions computed" in printed(old, "evaluate")
    assert printed(old, "history", "--format", "csv").count("\n") == 13
    assert (old / "store" / "ferry" / "anchor").read_text() == pinned


def test_clean_takes_none_of_its_files_for_rubbish(old: Path) -> None:
    printed(old, "evaluate", "--take-over")
    kept = {path for path in files(old) if "/evaluations/" not in path}
    words = ["clean", "--older-than", "0", "--orphans", "--yes", "--store", str(old / "store")]
    cleaned = CliRunner().invoke(main, words)
    assert cleaned.exit_code == 0, cleaned.output
    assert kept <= files(old).keys()
