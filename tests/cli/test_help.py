"""Every example of the help and of docs/splits.md works."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from rag_assets import __version__
from rag_assets.cli import data_commands, main
from rag_assets.evaluation.dialects import DIALECTS, squad_v2_official
from rag_assets.judges.check import Rules
from rag_assets.sources.writers import WRITERS
from tests.beir_folder import write_beir
from tests.cli.conftest import Invoke
from tests.llm.server import serving
from tests.test_imports import COMMAND, modules_after
from tests.tiny_experiment import QUERIES, Tiny

BEFORE = ("evaluate data/handbook", "anchor data/handbook", "evaluate data/handbook")
"""What was run before the examples: two evaluations, the first one pinned."""

PASSAGE_SHEET = "judge sheet data/handbook --passages --out sheet.csv"
"""What a person fills in before it is imported."""

COMMANDS = sorted(main.list_commands(click.Context(main)))


def pages_of_help() -> Iterator[tuple[str, ...]]:
    """Yield the words before ``--help``, of the program, each command and those below it."""
    yield ()
    for name in COMMANDS:
        yield (name,)
        command = main.get_command(click.Context(main), name)
        if isinstance(command, click.Group):
            yield from ((name, below) for below in command.commands)


def example(text: str) -> list[str]:
    found = re.search(r"^  Example: rag-assets (.+)\n\n", text, re.MULTILINE)
    assert found, text
    return shlex.split(found[1])


@pytest.fixture(scope="module")
def model_server() -> Iterator[str]:
    with serving(lambda text: '[{"question": "What is it that ferries carry?"}]') as server:
        yield server.base_url


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke, model_server: str) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    yaml = "retrievers: {bm25: {type: bm25}, minilm: {type: bm25, k1: 2}}\n"
    yaml += "judges: {strict: {type: words}}\n"
    yaml += f"llm: {{model: tiny, base_url: {model_server}, api_key_env: null}}\n"
    write_beir(folder / "data" / "handbook", {"experiment.yaml": yaml})
    (folder / "run.trec").write_text("q1 Q0 d1 1 1.0 t\n", encoding="utf-8")
    (folder / "qrels.txt").write_text("q1 0 d1 1\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in BEFORE:
            assert invoke(*words.split()).exit_code == 0
    return folder


def test_the_group_names_every_command(invoke: Invoke) -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name}  +\w", result.stdout, re.MULTILINE)
    assert "Exit codes: 0 success" in result.stdout


@pytest.mark.parametrize("page", list(pages_of_help()))
def test_the_example_of_a_command_runs(
    invoke: Invoke, page: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = invoke(*page, "--help")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "--quiet" in result.stdout
    words = example(result.stdout)
    name = words[0]
    assert tuple(words[: len(page)]) == page
    monkeypatch.chdir(folder)
    (folder / "sheet.csv").unlink(missing_ok=True)  # of another example
    if words[:2] == ["judge", "import"]:
        assert invoke(*PASSAGE_SHEET.split()).exit_code == 0
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)  # until Ctrl-C
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    done = invoke(*words)
    fails = words[:2] == ["judge", "check"]  # this judge calls everything relevant
    assert done.exit_code == (1 if fails else 0), done.output
    writes_sheet = name == "pool" or words[:2] in (["judge", "sheet"], ["judge", "import"])
    assert done.stdout or writes_sheet  # and says so on stderr
    if name == "evaluate":
        assert (folder / "data" / "store" / "handbook" / "current").is_file()


def test_a_command_and_what_it_runs_have_the_same_parameters_and_defaults() -> None:
    """Declared apart, so that help loads no library."""
    for page in pages_of_help():
        command: Any = main
        for name in page:
            command = command.commands[name]
        if isinstance(command, click.Group):
            continue
        module, function = command.runs.split(":")
        runs = inspect.signature(getattr(import_module(f"rag_assets.cli.{module}"), function))
        assert {one.name for one in command.params if one.expose_value} == set(runs.parameters)
    assert (*DIALECTS, squad_v2_official.NAME) == data_commands.DIALECTS
    assert tuple(WRITERS) == data_commands.WRITTEN_FORMATS
    defaults: dict[str | None, Any] = {
        one.name: one.default for one in data_commands.JUDGE.commands["check"].params
    }
    assert Rules() == Rules(*(defaults[name] for name in ("items", "at_least", "seed")))


def test_help_loads_no_library_and_versions_and_typos_are_told(invoke: Invoke) -> None:
    """Nor tables, models or Dagster: only click, and rich for what is printed."""
    loaded = modules_after(COMMAND, "leaderboard", "--help")
    assert loaded.isdisjoint({"dagster", "duckdb", "numpy", "pyarrow", "pydantic", "scipy"})
    assert invoke("--version").stdout == f"rag-assets, version {__version__}\n"
    result = invoke("evalute")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: ")
    assert "error: No such command 'evalute'. (Did you mean one of: 'evaluate'," in result.stderr


PAGE = Path(__file__).resolve().parents[2] / "docs" / "splits.md"
SECTION = r"^## (.*?)$(.*?)(?=^## |\Z)"
SECTIONS = {
    heading: (re.findall(r"```yaml\n(.*?)```", body, re.S), re.findall(COMMANDS, body, re.S))
    for COMMANDS in [r"```console\n(.*?)```"]
    for heading, body in re.findall(SECTION, PAGE.read_text("utf-8"), re.M | re.S)
}
EXAMPLES = {
    heading: (configs[0], consoles[0])
    for heading, (configs, consoles) in SECTIONS.items()
    if configs
}


def commands(console: str) -> list[tuple[str, list[str]]]:
    """Return each command with the lines that it prints, among others."""
    found: list[tuple[str, list[str]]] = []
    for line in console.splitlines():
        if line.startswith("$ rag-assets "):
            found.append((line.removeprefix("$ rag-assets "), []))
        else:
            found[-1][1].append(line)
    return found


def test_the_page_has_all_examples() -> None:
    headings = ["Split by a hash", "Split by a field", "Weights", "A sample of the queries"]
    assert list(EXAMPLES) == [*headings, "Clusters", "Tuned weights"]
    assert sum(len(commands(console)) for _, console in EXAMPLES.values()) == 11


@pytest.mark.parametrize(("config", "console"), EXAMPLES.values(), ids=EXAMPLES)
def test_example(
    computed: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, console: str
) -> None:
    tiny = Tiny(tmp_path).start_from(computed)
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.config["top_k"] = [1, 3, 5]
    tiny.config |= yaml.safe_load(config)
    tiny.write()
    folds = ["dev", "dev", "test", "test", "test", "test"]
    fields = [{"fold": fold, "asked": number} for number, fold in enumerate(folds, 1)]
    rows = [{**query, **more} for query, more in zip(QUERIES, fields, strict=True)]
    tiny.write_rows("queries.jsonl", rows)
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={"COLUMNS": "80", "RAG_ASSETS_STORE": str(tmp_path / "store")})
    for command, lines in commands(console):
        result = runner.invoke(main, shlex.split(command))
        assert result.exit_code == 0, result.output
        for line in lines:
            assert any(found.startswith(line) for found in result.output.splitlines()), line
