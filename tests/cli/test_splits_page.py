"""Every example of docs/splits.md is run, in its order, on a small folder named data."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from rag_assets.cli import main
from tests.tiny_experiment import QUERIES, Tiny

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
    headings = ["Split by a hash", "Split by a field", "Weights", "Clusters", "Tuned weights"]
    assert list(EXAMPLES) == headings
    assert sum(len(commands(console)) for _, console in EXAMPLES.values()) == 10


@pytest.mark.parametrize(("config", "console"), EXAMPLES.values(), ids=EXAMPLES)
def test_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, console: str
) -> None:
    tiny = Tiny(tmp_path)
    kept = tiny.config["retrievers"]["bm25"]
    tiny.config["retrievers"] = {"bm25": kept}
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
