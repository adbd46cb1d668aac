"""What the README and the pages that it leads to first show can be done."""

from __future__ import annotations

import re
from pathlib import Path

import click
import duckdb
import pytest
import yaml

from rag_assets.cli import main
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.warehouse import rebuild
from tests.tiny_experiment import Tiny

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = {
    name: (REPOSITORY / name).read_text(encoding="utf-8")
    for name in (
        "README.md",
        "docs/index.md",
        "docs/install.md",
        "docs/leaderboard.md",
        "docs/own_data.md",
        "docs/sample.md",
    )
}
TEXT = "\n".join(PAGES.values())


def block(page: str, language: str) -> str:
    """Return the first block of a page in a language."""
    found = re.search(rf"^ *```{language}\n(.*?)^ *```", PAGES[page], re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^()#\s]+)", PAGES[page])
    missing = [link for link in links if not (REPOSITORY / page).parent.joinpath(link).is_file()]
    assert links
    assert not missing


def test_the_yaml_example_is_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q", "text": "t"}\n', encoding="utf-8")
    example = block("docs/own_data.md", "yaml")
    (tmp_path / "experiment.yaml").write_text(example, encoding="utf-8")
    experiment = load_experiment(tmp_path)
    assert set(experiment.retrievers) == set(yaml.safe_load(example)["retrievers"])


def test_the_sql_example_runs(tiny: Tiny) -> None:
    statement = block("docs/sample.md", "sql").replace("'minilm'", "'okapi'")
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:
        rows = connection.sql(statement.replace("top_k = 10", "top_k = 3")).fetchall()
    assert rows
    assert rows == sorted(rows, key=lambda row: -row[2])


@pytest.mark.parametrize("name", sorted(set(re.findall(r"rag-assets ([a-z]+(?:-[a-z]+)*)", TEXT))))
def test_every_command_exists(name: str) -> None:
    assert name in main.list_commands(click.Context(main))


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`)make ([a-z]+)", TEXT, re.M))))
def test_every_make_target_exists(target: str) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE)
