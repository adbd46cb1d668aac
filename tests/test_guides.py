"""The tutorial and the how-to guides: every command in them prints what they say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import click
import pytest
import yaml
from sentence_transformers import SentenceTransformer

from rag_assets.cli import main
from tests.static_model import save_static_model
from tests.walked_page import DOCS, walk

GUIDES = {
    "first_evaluation.md": {
        "init",
        "ask",
        "validate",
        "evaluate",
        "leaderboard",
        "compare",
        "attribution",
        "plan",
        "status",
    },
    "how_to/own_search.md": {"plan", "evaluate"},
    "how_to/search_libraries.md": {"evaluate"},
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
    "how_to/from_ragas.md": {"evaluate", "leaderboard", "judge", "export-run", "score"},
    "how_to/read_statistics.md": {"evaluate", "compare", "leaderboard"},
}
"""Page -> the commands that it runs."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "how_to/search_libraries.md":
        pytest.importorskip("tantivy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tmp_path / "store"))
    lines = [command.line.split() for command in walk(page, tmp_path)]
    assert {words[1] for words in lines if words[0] == "rag-assets"} == GUIDES[page]


@pytest.mark.parametrize("package", ["tantivy", "chromadb", "lancedb", "pymilvus"])
def test_a_function_around_a_search_library_finds_the_passages(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    text = (DOCS / "how_to/search_libraries.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"^`data/ferry/([^`\n]+)`:\n\n```\w+\n(.*?)^```$", text, re.S | re.M))
    for name, body in files.items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    (name,) = (
        name for name, body in files.items() if re.search(rf"^(import|from) {package}", body, re.M)
    )
    folder = save_static_model(tmp_path / "model", files.values())
    model = SentenceTransformer(str(folder), device="cpu")
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", lambda _: model)
    retrieve = runpy.run_path(str(tmp_path / name))["retrieve"]
    best, *others = retrieve("can a ship enter the harbour in a storm", 3)
    assert (best["text"].strip(), best["source"]) == (
        "In a storm no ship can enter the southern harbour.",
        "weather.md",
    )
    assert len(others) <= 2
    assert all(best["score"] >= other["score"] for other in others)


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
