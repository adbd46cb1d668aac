"""The tutorial and the how-to guides: every command in them prints what they say."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from rag_assets.cli import main
from tests.walked_page import DOCS, walk

GUIDES = {
    "first_evaluation.md": {
        "init",
        "ask",
        "validate",
        "evaluate",
        "compare",
        "attribution",
        "plan",
        "status",
    },
    "how_to/own_search.md": {"plan", "evaluate"},
    "how_to/production_search.md": {
        "score",
        "evaluate",
        "compare",
        "attribution",
        "leaderboard",
        "convert",
    },
    "how_to/nightly.md": {"evaluate", "anchor", "gate", "diff", "history"},
    "how_to/from_autorag.md": {"validate", "evaluate", "export-run", "score"},
    "how_to/from_llamaindex.md": {"validate", "evaluate", "score"},
    "how_to/from_ragas.md": {"evaluate", "judge", "export-run", "score"},
    "how_to/read_statistics.md": {"evaluate", "compare", "leaderboard"},
}
"""Page -> the commands that it runs."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tmp_path / "store"))
    lines = [command.line.split() for command in walk(page, tmp_path)]
    assert {words[1] for words in lines if words[0] == "rag-assets"} == GUIDES[page]


def test_every_guide_is_walked() -> None:
    assert {f"how_to/{file.name}" for file in (DOCS / "how_to").glob("*.md")} <= set(GUIDES)


@pytest.mark.parametrize("page", GUIDES)
def test_snippets_that_are_not_run_are_sound(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for kind, body in BLOCK.findall(text):
        if kind == "python":
            compile(body, page, "exec")
        if kind == "yaml":
            assert yaml.safe_load(body)
    for line in re.findall(r"rag-assets ((?!\*)[a-z][^`\n>]*)", text):
        name, *words = re.sub(r"  # exit code \d$", "", line).split()
        command = main.get_command(click.Context(main), name)
        assert command is not None, line
        with click.Context(command, resilient_parsing=True) as context:
            command.make_parser(context).parse_args(words)
