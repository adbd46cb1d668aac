"""Every example and every command of docs/attribution.md is executed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.evaluation.attribution import PLACES, attributions, places
from rag_assets.schemas import QRELS
from tests.answers.answering import with_answers
from tests.labels.health.tables import documents
from tests.made_tables import Label, judgment_table, run_table
from tests.tiny_experiment import Tiny

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "attribution.md").read_text("utf-8")
EXAMPLES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S)]
COMMANDS = re.findall(r"^\$ rag-assets (.*)$", TEXT, re.M)
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, re.S)


def test_the_page_has_its_examples() -> None:
    assert (len(EXAMPLES), len(COMMANDS), len(QUERIES)) == (2, 6, 2)
    assert all(f"`{place}`" in TEXT for place in PLACES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: dict[str, Any]) -> None:
    labels: list[Label] = [
        ("q", evidence, unit, 1)
        for evidence, units in example["units"].items()
        for unit in (units or [None])
    ]
    gone = set(example.get("gone", ()))
    qrels = QRELS.from_rows(
        [
            {
                "query_id": "q",
                "evidence_id": evidence,
                "document_id": "gone" if evidence in gone else "d",
                "grade": 1,
            }
            for evidence in example["units"]
        ]
    )
    inputs = {name: run_table({"q": items}) for name, items in example.get("inputs", {}).items()}
    table = attributions(
        run_table({"q": example["ranking"]}),
        judgment_table(labels),
        qrels,
        documents({"d": ""}),
        k=example["k"],
        family="fused" if inputs else "lexical",
        inputs=inputs,
    )
    found = {row["evidence_id"]: row["lost_at"] for row in table.to_pylist()}
    assert found == example["lost_at"]
    counted = places(table)
    assert counted is not None
    assert counted.recall == pytest.approx(example["recall"], abs=1e-6)
    assert counted.ceiling == example.get("ceiling")


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small experiment in the place of the handbook."""
    tiny = with_answers(Tiny(tmp_path / "tiny").write())
    (tmp_path / "data").mkdir()
    tiny.folder.rename(tmp_path / "data" / "handbook")
    monkeypatch.chdir(tmp_path)
    for name in ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    for command in COMMANDS:
        done = CliRunner(env={"COLUMNS": "80"}).invoke(main, shlex.split(command))
        assert done.exit_code == 0, done.output
        if not command.startswith("evaluate") and "csv" not in command:
            assert max(map(len, done.stdout.splitlines())) <= 80
    with duckdb.connect("data/store/warehouse.duckdb", read_only=True) as warehouse:
        rows = warehouse.sql(QUERIES[0]).fetchall()
    assert ("bm25", "found", 7) in rows
