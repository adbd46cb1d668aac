"""What a shell is offered: click's own protocol, asked as a shell asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from rag_assets.cli import main

YAML = "name: ferry\nretrievers: {new: {type: bm25}, bm25: {type: bm25}}\n"


def offered(*words: str) -> list[str]:
    """Return what the last word is completed to."""
    *before, incomplete = words
    shell = ShellComplete(main, {}, "rag-assets", "_RAG_ASSETS_COMPLETE")
    return [item.value for item in shell.get_completions(before, incomplete)]


@pytest.fixture
def folder(tmp_path: Path, evaluated: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """An evaluated experiment ``data/tiny``, and one that is not."""
    monkeypatch.delenv("RAG_ASSETS_STORE", raising=False)
    shutil.copytree(evaluated[0], tmp_path / "data" / "tiny")
    shutil.copytree(evaluated[1], tmp_path / "data" / "store")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "experiment.yaml").write_text(YAML, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_and_options() -> None:
    assert offered("lea") == ["leaderboard"]
    assert offered("leaderboard", "--form") == ["--format"]
    assert offered("leaderboard", "--format", "") == ["table", "json", "csv", "markdown", "latex"]
    assert offered("--q") == ["--quiet"]
    assert offered("cache", "") == ["info", "prune"]


def test_experiments_come_before_other_paths(folder: Path) -> None:
    assert offered("evaluate", "") == ["data/tiny", "other"]
    assert offered("evaluate", "da") == ["data/tiny"]
    assert offered("evaluate", "elsewhere/x") == ["elsewhere/x"]  # the shell completes files


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "data/tiny", ""),
        ("leaderboard", "data/tiny", "--retriever", ""),
        ("leaderboard", "data/tiny/experiment.yaml", "--retriever", ""),
        ("export-run", "data/tiny", "--retriever", "b"),
    ],
)
def test_retrievers(folder: Path, words: tuple[str, ...]) -> None:
    assert offered(*words) == ["bm25"]


def test_retrievers_that_were_not_evaluated_yet(folder: Path) -> None:
    assert offered("evaluate", "other", "--retriever", "") == ["new", "bm25"]


def test_evaluations(folder: Path) -> None:
    files = (folder / "data/store/tiny/evaluations").glob("*.json")
    ids = sorted((file.stem for file in files), reverse=True)  # the newest first
    assert offered("diff", "data/tiny", "") == ["latest", "previous", "anchor", *ids]
    assert offered("anchor", "data/tiny", ids[0][:4]) == ids
    assert offered("gate", "data/tiny", "--against", "an") == ["anchor"]
    assert offered("diff", "data/tiny", "--store", "nowhere", "20") == []


def test_what_cannot_be_read_completes_nothing(folder: Path) -> None:
    (folder / "other" / "experiment.yaml").write_text("retrievers: [", encoding="utf-8")
    assert offered("evaluate", "other", "--retriever", "") == []
    assert offered("evaluate", "nowhere", "--retriever", "") == []


def test_names_of_commands_are_completed_without_loading_one() -> None:
    code = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from rag_assets.cli import main\n"
        "shell = ShellComplete(main, {}, 'rag-assets', '_RAG_ASSETS_COMPLETE')\n"
        "assert len(shell.get_completions([], '')) > 10\n"
        "assert not {'numpy', 'pyarrow', 'pydantic'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_bash_is_told_how() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    environment = {**os.environ, "_RAG_ASSETS_COMPLETE": "bash_source"}
    program = [sys.executable, "-m", "rag_assets.cli"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)
    assert "_rag_assets_completion" in done.stdout
    subprocess.run([bash, "-n"], input=done.stdout, text=True, check=True, timeout=60)
