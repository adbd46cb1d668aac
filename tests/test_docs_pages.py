"""Every command of labels, data, generation and plan in docs/ prints what the page says."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

import pytest
import yaml

from rag_assets.experiment.config import ChecksConfig, DriftConfig
from rag_assets.labels.question_generation import REASONS
from rag_assets.sources import FORMATS
from rag_assets.sources.writers import WRITERS
from tests.forked import Forks
from tests.llm.server import says, serving
from tests.walked_page import DOCS, alike, walk


def yaml_blocks(page: str) -> list[str]:
    """Return the blocks of YAML of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tmp_path / "store"))
    return tmp_path


def test_labels(folder: Path) -> None:
    used = {tuple(c.line.split()[1:2]) for c in walk("labels.md", folder) if "rag-assets" in c.line}
    assert used == {("validate",), ("evaluate",), ("pool",)}


def test_labelling(folder: Path) -> None:
    shutil.copytree(DOCS.parent / "data" / "handbook", folder / "data" / "handbook")
    lines = [one.line for one in walk("labelling.md", folder) if "rag-assets" in one.line]
    used = {line.split()[1] for line in lines}
    assert used == {"evaluate", "pool", "label", "compare"}


def test_data(folder: Path) -> None:
    pytest.importorskip("pypdfium2")
    lines = [command.line for command in walk("data.md", folder)]
    for name in WRITERS:
        assert any(f"--to {name}" in line for line in lines), name


def test_generation(folder: Path) -> None:
    found = {
        "single ticket": [("How much is a one-way trip?", "40 crowns")],
        "dog": [
            ("What does the passage say of dogs?", ""),
            ("Are 10 crowns for a dog?", "10 crowns"),
        ],
        "southern": [("When can no ship enter the south port?", "a storm")],
    }
    with serving() as server:
        for mark, pairs in found.items():
            asked = [{"question": question, "answer": answer} for question, answer in pairs]
            server.on(mark, says(json.dumps(asked)))
        walk("generation.md", folder, server=server.base_url)
        assert len(server.received) == 3


def test_index_texts(folder: Path) -> None:
    written = {
        "single": ["What is the price of a ticket?", "Are all routes the same?"],
        "Four-legged": ["What does a ticket for a dog cost?", "May a cat come?"],
        "southern": ["When can no ship enter the south port?", "Is it open in a storm?"],
    }
    with serving() as server:
        for mark, questions in written.items():
            server.on(mark, says(json.dumps(questions)))
        walk("index_texts.md", folder, server=server.base_url)
        assert len(server.received) == 3


def test_every_reason_is_on_the_page() -> None:
    page = (DOCS / "generation.md").read_text(encoding="utf-8")
    for reason in REASONS:
        assert f"\n| `{reason}` |" in page, reason


def test_plan(folder: Path) -> None:
    commands = [command.line.split()[1] for command in walk("plan.md", folder)]
    assert commands == ["evaluate", "plan", "plan"]


def test_history(folder: Path) -> None:
    used = {command.line.split()[1] for command in walk("history.md", folder)}
    assert used == {"evaluate", "anchor", "history", "diff", "gate"}


def test_drift(folder: Path) -> None:
    used = {command.line.split()[1] for command in walk("drift.md", folder)}
    assert used == {"evaluate", "anchor", "validate", "-i"}
    (block,) = (yaml.safe_load(text) for text in yaml_blocks("drift.md") if "checks" in text)
    config = ChecksConfig.model_validate(block["checks"]).drift
    assert config.model_fields_set == set(DriftConfig.model_fields)
    page = (DOCS / "drift.md").read_text(encoding="utf-8")
    for name in DriftConfig.model_fields.keys() - {"far_below"}:
        assert re.search(rf"\b{name}: .*default: {getattr(DriftConfig(), name)}\b", page)


def test_semantics(folder: Path) -> None:
    assert [command.line for command in walk("semantics.md", folder)] == [
        "python eight.py",
        "python prompts.py",
    ]


def test_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "polars"):
        pytest.importorskip(package)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert [command.line for command in walk("notebook.md", folder)] == ["python use.py"]


def test_in_python(folder: Path) -> None:
    lines = [command.line.split() for command in walk("in_python.md", folder)]
    assert [line[1] for line in lines] == ["ferry.py", "metrics_alone.py", "-m"]
    assert not (folder / "store").exists()


def test_automation(folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "store" / "dagster"
    home.mkdir(parents=True)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    commands = [tuple(command.line.split()[:3]) for command in walk("automation.md", folder, forks)]
    assert commands == [
        ("rag-assets", "evaluate", "data/ferry"),
        ("dagster", "schedule", "list"),
        ("dagster", "job", "execute"),
        ("dagster", "job", "execute"),
    ]


def test_store(folder: Path) -> None:
    used = {
        command.line.split()[1] for command in walk("store.md", folder) if "rag-" in command.line
    }
    assert used == {"evaluate", "clean", "cache"}


def test_remote_store(folder: Path, s3_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ASSETS_STORE", s3_store)
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(folder / "machine"))
    lines = [command.line for command in walk("remote-store.md", folder)]
    assert sum("evaluate" in line for line in lines) == 3


@pytest.mark.usefixtures("with_ray")
def test_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_ASSETS_COMPUTE", raising=False)
    assert [command.line.split()[1] for command in walk("cluster.md", folder)] == [
        "plan",
        "evaluate",
    ]


def test_terminal(folder: Path) -> None:
    used = {command.line.split()[1] for command in walk("terminal.md", folder)}
    assert {"evaluate", "-v", "leaderboard", "validate"} <= used


def test_benchmarks() -> None:
    """The page is what benchmarks/page.py writes of the results: nothing is typed by hand."""
    script = runpy.run_path(str(DOCS.parent / "benchmarks" / "page.py"))
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert page == script["page"](), "run `python benchmarks/page.py`"
    commands = re.findall(r"^python (benchmarks/\w+\.py)", page, re.M)
    assert commands
    for command in commands:
        assert (DOCS.parent / command).is_file(), command


def test_every_format_is_on_the_page() -> None:
    page = (DOCS / "data.md").read_text(encoding="utf-8")
    for name in FORMATS:
        assert f"\n| `{name}` |" in page, name
    for name in WRITERS:
        assert f"\n| `--to {name}` |" in page, name


@pytest.mark.parametrize(
    ("expected", "printed", "is_alike"),
    [
        (["a ... c", "d"], "a b c  \nd\n", True),
        (["...", "d"], "a\nb\nd\n", True),
        (["...", "d"], "a\nb\n", False),
        (["a"], "a\nb\n", False),
        (["a.c"], "abc\n", False),
        ([], "", True),
    ],
)
def test_what_counts_as_alike(expected: list[str], printed: str, is_alike: bool) -> None:
    assert alike(expected, printed) == is_alike
