"""What the README shows can be done."""

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
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"^ *```{language}\n(.*?)^ *```", README, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_yaml_example_is_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q", "text": "t"}\n', encoding="utf-8")
    (tmp_path / "experiment.yaml").write_text(block("yaml"), encoding="utf-8")
    experiment = load_experiment(tmp_path)
    assert set(experiment.retrievers) == set(yaml.safe_load(block("yaml"))["retrievers"])


def test_the_sql_example_runs(tiny: Tiny) -> None:
    statement = block("sql").replace("'minilm'", "'okapi'")
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:
        rows = connection.sql(statement.replace("top_k = 10", "top_k = 3")).fetchall()
    assert rows
    assert rows == sorted(rows, key=lambda row: -row[2])


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"rag-assets ([a-z]+(?:-[a-z]+)*)", README)))
)
def test_every_command_exists(name: str) -> None:
    assert name in main.list_commands(click.Context(main))


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.M))))
def test_every_make_target_exists(target: str) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE)
